/** The shape of a check of the machine, its possible verdicts, and the context that checks share. */
import type { Inspection, Proxies, SettingName, SettingsSource } from '../../base/config.ts'
import type { OpenDatabase } from '../../db/open.ts'
import type { ServerFacts } from '../../db/survey.ts'

export type Status = 'pass' | 'warn' | 'fail' | 'skipped'

/** One thing that is wrong, and its remedy, in sentences. */
export interface Trouble {
  status: 'warn' | 'fail'
  message: string
  remedy: string
}

/** The outcome of one check. */
export interface Verdict {
  /** The worst of the troubles. */
  status: Status
  /** What is well, why the check was skipped, or the messages of the troubles. */
  message: string
  troubles: Trouble[]
}

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

/** One check; `name` is for `--json`, `title` for people. */
export interface Check {
  name: string
  title: string
  /** How long the check may take; 5 s where it is absent. */
  limitMs?: number
  /** The check is skipped where this is missing or has fallen silent. */
  needs?: 'database' | 'tables'
  run(context: CheckContext): Promise<Verdict>
}

export const pass = (message: string): Verdict => ({ status: 'pass', message, troubles: [] })
export const skipped = (reason: string): Verdict => ({ status: 'skipped', message: `because ${reason}`, troubles: [] })

export const warning = (message: string, remedy: string): Trouble => ({ status: 'warn', message, remedy })
export const failure = (message: string, remedy: string): Trouble => ({ status: 'fail', message, remedy })

/** The verdict on `troubles`; `well` is its message where there are none. */
export function judge(well: string, troubles: Trouble[]): Verdict {
  if (troubles.length === 0) return pass(well)
  const status = troubles.some((trouble) => trouble.status === 'fail') ? 'fail' : 'warn'
  return { status, message: troubles.map(({ message }) => message).join(' '), troubles }
}

export const formatMs = (ms: number): string => (ms < 10 ? `${ms.toFixed(1)} ms` : `${Math.round(ms)} ms`)
