/** The shape of a check of this machine, and the context that checks share. */
import type { Inspection, Proxies, SettingName, SettingsSource } from '../../base/config.ts'
import type { OpenDatabase } from '../../db/open.ts'
import type { ServerFacts } from '../../db/survey.ts'
import type { Found } from '../finding.ts'

/** What checks share: the settings, and what earlier checks found out about the database. */
export interface CheckContext {
  source: SettingsSource
  /** The values of all settings, and what is wrong with them. */
  inspection: Inspection<SettingName>
  /** Undefined where a setting of a proxy is wrong. */
  proxies: Proxies | undefined
  /** Opens the database that a push would use. */
  open(settings: { databaseUrl: string | undefined; home: string }): Promise<OpenDatabase>
  opened: OpenDatabase | undefined
  facts: ServerFacts | undefined
  /** Why the database, or its tables, cannot be queried; undefined where they can. */
  noDatabase: string | undefined
  noTables: string | undefined
}

/** A database that was opened, for checks that need it. */
export const openedOf = ({ opened }: CheckContext): OpenDatabase => opened as OpenDatabase
export const factsOf = ({ facts }: CheckContext): ServerFacts => facts as ServerFacts

/** One check; its findings have `code`, and `title` as their place, where they name no other. */
export interface Check {
  code: string
  title: string
  /** How long the check may take; 5 s where it is absent. */
  limitMs?: number
  /** The check is left out where this is missing or has fallen silent. */
  needs?: 'database' | 'tables'
  run(context: CheckContext): Promise<Found[]> | Found[]
}
