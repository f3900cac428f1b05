/** `validate` without files: this machine, then all data, if they can be read. */

import { plural } from '../../base/amounts.ts'
import type { SettingsSource } from '../../base/config.ts'
import { LeadpushError } from '../../base/errors.ts'
import { openVault } from '../../secrets/vault.ts'
import { type Finding, type Findings, problem } from '../finding.ts'
import type { CheckContext } from '../machine/check.ts'
import { type CheckOptions, MachineChecks } from '../machine/run-checks.ts'
import { checkDatabase, type DatabaseCounts } from './database.ts'

/** Those of the data are there once that is looked at. */
export interface EverythingCounts extends Partial<DatabaseCounts> {
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

const leftOut = (what: string): Finding => ({
  ...{ level: 'skipped', code: 'left-out', where: 'database', path: '' },
  what,
})

/** The findings on this machine, then those on all data; `counts` grows meanwhile. */
export async function* checkEverything(options: EverythingOptions, counts: EverythingCounts): Findings {
  const machine = new MachineChecks(options)
  const left = new Map<string, number>()
  for await (const { found, leftOut: reason } of machine.run(options.signal)) {
    counts.checks++
    if (reason !== undefined) left.set(reason, (left.get(reason) ?? 0) + 1)
    yield* found
  }
  for (const [reason, checks] of left) yield leftOut(`${plural(checks, 'check')} of the database: ${reason}`)
  if (machine.hangs) options.onHang()
  else if (!options.quick && !options.signal.aborted) yield* checkData(machine.context, options.signal, counts)
}

/** The checks before have reported why the data cannot be read. */
async function* checkData(context: CheckContext, signal: AbortSignal, counts: EverythingCounts): Findings {
  const { opened, inspection, noDatabase, noTables } = context
  const { settings, problems } = inspection
  if (opened === undefined || (noDatabase ?? noTables) !== undefined) return
  if (problems.length > 0) return yield leftOut('the data: settings are wrong')
  try {
    const vault = await openVault(opened.db, { secretKey: settings.secretKey })
    const { allowInsecureHooks, hookHosts } = settings
    const begun = Object.assign(counts, { users: 0, subscribed: 0, queries: 0, hooks: 0, leads: 0 })
    yield* checkDatabase(opened, { allowInsecureHooks, hookHosts }, begun, signal, vault)
  } catch (error) {
    const known = opened.patience.asTold(error)
    if (!(known instanceof LeadpushError)) throw error
    // the check of encryption has reported a wrong key
    if (known.code === 'usage') return yield leftOut('the data: its secrets cannot be read')
    yield { code: 'database', where: 'database', path: '', ...problem(known.message, known.hint) }
  }
}
