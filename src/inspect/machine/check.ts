/** The shape of a check of this machine, and the context of all checks. */
import type { Inspection, Proxies, SettingName, SettingsSource } from '../../base/config.ts'
import type { OpenDatabase } from '../../db/open.ts'
import type { ServerFacts } from '../../db/survey.ts'
import type { Found } from '../finding.ts'

/** The context of all checks: the settings, and facts about the database from earlier checks. */
export interface CheckContext {
  source: SettingsSource
  /** The values of all settings, and their faults. */
  inspection: Inspection<SettingName>
  /** Undefined if a setting of a proxy is wrong. */
  proxies: Proxies | undefined
  /** Opens the database that a push would use. */
  open(settings: { databaseUrl: string | undefined; home: string }): Promise<OpenDatabase>
  opened: OpenDatabase | undefined
  facts: ServerFacts | undefined
  /** Why the database, or its tables, cannot be queried; undefined if they can. */
  noDatabase: string | undefined
  noTables: string | undefined
}

/** A database that was opened, for checks that need it. */
export const openedOf = ({ opened }: CheckContext): OpenDatabase => opened as OpenDatabase
export const factsOf = ({ facts }: CheckContext): ServerFacts => facts as ServerFacts

/** One check. Its findings have its `code`, and its `title` as their place unless they name another. */
export interface Check {
  code: string
  title: string
  /** How long the check may take; 5 s by default. */
  limitMs?: number
  /** Without this, or if it has fallen silent, the check is left out. */
  needs?: 'database' | 'tables'
  run(context: CheckContext): Promise<Found[]> | Found[]
}
