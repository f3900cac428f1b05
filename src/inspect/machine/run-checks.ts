/**
 * `validate` checks this machine, from the program itself to the receiver; a check comes after those that it depends on. It sends
 * no delivery, writes nothing, and gives up on a check that hangs.
 */
import { inspectSettings, readProxies, type SettingsSource, settingNames } from '../../base/config.ts'
import { codeOf, LeadpushError, messageOf } from '../../base/errors.ts'
import { isDatabaseError } from '../../db/away.ts'
import { type Finding, type Found, problem } from '../finding.ts'
import type { Check, CheckContext } from './check.ts'
import { clientCertificateCheck } from './client-certificate.ts'
import { clockChecks } from './clock.ts'
import { databaseChecks } from './database.ts'
import { diskCheck } from './disk.ts'
import { encryptionCheck } from './encryption.ts'
import { nodeCheck } from './node.ts'
import { receiverCheck } from './receiver.ts'
import { scheduleCheck } from './schedule.ts'
import { settingsChecks } from './settings.ts'

/** The result of one check. */
export interface Checked {
  found: Finding[]
  /** Why the check was not possible yet. */
  leftOut?: string | undefined
}

export interface CheckOptions {
  source: SettingsSource
  open: CheckContext['open']
}

const checks: readonly Check[] = [
  nodeCheck,
  ...settingsChecks,
  ...databaseChecks,
  encryptionCheck,
  ...clockChecks,
  clientCertificateCheck,
  receiverCheck,
  scheduleCheck,
  diskCheck,
]

export const checkTitles = checks.map(({ title }) => title)

const limitMsUsual = 5_000

function buildContext({ source, open }: CheckOptions): CheckContext {
  const inspection = inspectSettings(settingNames, source)
  let proxies: CheckContext['proxies']
  try {
    proxies = readProxies(source)
  } catch (error) {
    if (!(error instanceof LeadpushError)) throw error
    // both readings report a .env that cannot be read: once is enough
    for (const line of error.message.split('\n')) {
      if (!inspection.problems.includes(line)) inspection.problems.push(line)
    }
  }
  const unknown = { opened: undefined, facts: undefined, noDatabase: undefined, noTables: undefined }
  return { source, open, inspection, proxies, ...unknown }
}

const again = 'and run `leadpush validate` again.'

/** A check that threw is a problem, and the others go on. */
function judgeError(check: Check, error: unknown, context: CheckContext): Found[] {
  // after a missing right or a time limit the database still answers other checks
  const isAway = isDatabaseError(error) && !['42501', '25006', '57014'].includes(codeOf(error) ?? '')
  if (check.needs && isAway) context.noDatabase ??= 'the database went away'
  const told = context.opened?.patience.asTold(error) ?? error
  const hint = told instanceof LeadpushError ? told.hint : undefined
  return [problem(messageOf(told), hint ?? `Mend that, ${again}`)]
}

/** The checks of one machine, in order. It keeps their facts about settings and database. */
export class MachineChecks {
  readonly context: CheckContext
  /** A check has begun work that has not ended. */
  hangs = false

  constructor(options: CheckOptions) {
    this.context = buildContext(options)
  }

  async *run(signal?: AbortSignal): AsyncGenerator<Checked, void, undefined> {
    for (const check of checks) {
      if (signal?.aborted) return
      const { noDatabase, noTables } = this.context
      const leftOut = check.needs && (noDatabase ?? (check.needs === 'tables' ? noTables : undefined))
      const found = leftOut === undefined ? await this.runInTime(check) : []
      const { code, title: where } = check
      yield { found: found.map((each) => ({ code, where, path: '', ...each })), leftOut }
    }
  }

  /** Never throws, and ends at the check's time limit. */
  private async runInTime(check: Check): Promise<Found[]> {
    const { context } = this
    const limitMs = check.limitMs ?? limitMsUsual
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<'late'>((resolve) => {
      timer = setTimeout(() => resolve('late'), limitMs)
    })
    const running = (async () => check.run(context))().catch((error) => judgeError(check, error, context))
    const found = await Promise.race([running, late])
    clearTimeout(timer)
    if (found !== 'late') return found
    this.hangs = true
    if (check.needs || check.code === 'database') context.noDatabase = 'the database fell silent'
    return [problem(`It did not end within ${limitMs / 1_000} s`, `Find out what hangs, ${again}`)]
  }
}
