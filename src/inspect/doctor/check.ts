/** What a check of the machine is, what it can come to, and what the checks hand on to those that come after them. */
import type { Inspection, Proxies, SettingName, SettingsSource } from '../../base/config.ts'
import type { OpenDatabase } from '../../db/open.ts'
import type { ServerFacts } from '../../db/survey.ts'

export type Status = 'pass' | 'warn' | 'fail' | 'skipped'

/** Something that is wrong, and what to do about it: sentences. */
export interface Trouble {
  status: 'warn' | 'fail'
  message: string
  remedy: string
}

export interface Verdict {
  /** The worst of the troubles. */
  status: Status
  /** What is well, or why nothing was looked at; with troubles theirs. */
  message: string
  troubles: Trouble[]
}

export interface DoctorContext {
  source: SettingsSource
  /** Of all settings. */
  inspection: Inspection<SettingName>
  /** Undefined where what names them is wrong. */
  proxies: Proxies | undefined
  /** Whether what is asked of the database is asked of the one that a push would use. */
  open(settings: { databaseUrl: string | undefined; home: string }): Promise<OpenDatabase>
  opened: OpenDatabase | undefined
  facts: ServerFacts | undefined
  /** Why nothing can be asked of the database, or of its tables, if that is so. */
  noDatabase: string | undefined
  noTables: string | undefined
}

export interface Check {
  name: string
  title: string
  /** 5 s unless told. */
  limitMs?: number
  /** What it asks; without it, or once it fell silent, the check is skipped. */
  needs?: 'database' | 'tables'
  run(context: DoctorContext): Promise<Verdict>
}

export const pass = (message: string): Verdict => ({ status: 'pass', message, troubles: [] })
export const skipped = (reason: string): Verdict => ({ status: 'skipped', message: `because ${reason}`, troubles: [] })

export const warning = (message: string, remedy: string): Trouble => ({ status: 'warn', message, remedy })
export const failure = (message: string, remedy: string): Trouble => ({ status: 'fail', message, remedy })

/** `well` where there is no trouble. */
export function judge(well: string, troubles: Trouble[]): Verdict {
  if (troubles.length === 0) return pass(well)
  const status = troubles.some((trouble) => trouble.status === 'fail') ? 'fail' : 'warn'
  return { status, message: troubles.map(({ message }) => message).join(' '), troubles }
}

/** 123456789 as 123.5 MB. */
export function formatBytes(bytes: number): string {
  const units = ['B', 'kB', 'MB', 'GB', 'TB']
  let value = bytes
  let at = 0
  for (; value >= 1_000 && at < units.length - 1; at++) value /= 1_000
  return `${at === 0 ? value : value.toFixed(1)} ${units[at]}`
}

export const formatMs = (ms: number): string => (ms < 10 ? `${ms.toFixed(1)} ms` : `${Math.round(ms)} ms`)
