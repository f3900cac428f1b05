/** `validate` without files: this machine, then all data, where the machine lets it be read. */

import { plural } from '../../base/amounts.ts'
import type { SettingsSource } from '../../base/config.ts'
import { LeadpushError } from '../../base/errors.ts'
import { asDatabaseError } from '../../db/away.ts'
import { openVault } from '../../secrets/vault.ts'
import type { CheckContext } from '../machine/check.ts'
import { type CheckLine, type CheckOptions, MachineChecks } from '../machine/run-checks.ts'
import type { DatabaseCounts } from './database.ts'
import type { Finding, Findings } from './finding.ts'

export interface EverythingCounts extends DatabaseCounts {
  checks: number
}

export interface EverythingOptions extends CheckOptions {
  source: SettingsSource
  /** Leaves the pass over the data out. */
  quick: boolean
  signal: AbortSignal
  /** A check that hangs keeps the process. */
  onHang(): void
}

/** A setting at the beginning of a message: it is where the trouble is. */
const settingName = /^((?:LEADPUSH_\w+|DATABASE_URL|HTTPS?_PROXY|NO_PROXY)):? +(.*)$/s

function* toFindings({ name, title, troubles }: CheckLine): Generator<Finding> {
  for (const { status, message, remedy } of troubles) {
    const [, path = '', told = message] = settingName.exec(message) ?? []
    const where = path === '' ? title : 'settings'
    const type = status === 'fail' ? 'problem' : 'note'
    yield { type, code: name, where, path, message: told.replace(/\.$/, ''), hint: remedy }
  }
}

const leftOut = (message: string): Finding => ({ type: 'skipped', where: 'database', path: '', message })

/** The findings on this machine, then those on all data; `counts` grows as things are looked at. */
export async function* checkEverything(options: EverythingOptions, counts: EverythingCounts): Findings {
  const machine = new MachineChecks(options)
  const left = new Map<string, number>()
  for await (const line of machine.run(options.signal)) {
    counts.checks++
    if (line.leftOut !== undefined) left.set(line.leftOut, (left.get(line.leftOut) ?? 0) + 1)
    yield* toFindings(line)
  }
  for (const [reason, checks] of left) yield leftOut(`${plural(checks, 'check')} of the database: ${reason}`)
  if (machine.hangs) options.onHang()
  else if (!options.quick && !options.signal.aborted) yield* checkData(machine.context, options.signal, counts)
}

/** What keeps the data from being read was told by the checks before. */
async function* checkData(context: CheckContext, signal: AbortSignal, counts: EverythingCounts): Findings {
  const { opened, inspection, noDatabase, noTables } = context
  const { timeZone, maxLeadAgeMs, ...settings } = inspection.settings
  if (opened === undefined || (noDatabase ?? noTables) !== undefined) return
  if (inspection.problems.length > 0 || timeZone === undefined || maxLeadAgeMs === undefined)
    return yield leftOut('the data: settings are wrong')
  try {
    // loaded where there is data: a process that may open few files is told so all the same
    const { checkDatabase } = await import('./database.ts')
    const vault = await openVault(opened.db, { secretKey: settings.secretKey })
    const { receiverUrl, allowInsecureHooks, hookHosts } = settings
    const rules = { receiverUrl, allowInsecureHooks, hookHosts, timeZone, maxLeadAgeMs }
    yield* checkDatabase(opened, rules, counts, signal, vault)
  } catch (error) {
    const known = asDatabaseError(error)
    if (!(known instanceof LeadpushError)) throw error
    // a wrong key was told by the check of encryption
    if (known.code === 'usage') return yield leftOut('the data: its secrets cannot be read')
    yield {
      type: 'problem',
      code: 'database',
      where: 'Database',
      path: '',
      message: known.message,
      ...(known.hint && { hint: known.hint }),
    }
  }
}
