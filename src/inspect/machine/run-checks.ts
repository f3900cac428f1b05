/**
 * `validate` checks this machine, from the program itself to the receiver; a check comes after those that it depends on. It sends
 * no delivery, writes nothing, and gives up on a check that hangs.
 */
import { inspectSettings, readProxies, type SettingsSource, settingNames } from '../../base/config.ts'
import { codeOf, LeadpushError, messageOf } from '../../base/errors.ts'
import { isDatabaseError } from '../../db/away.ts'
import { type Check, type CheckContext, failure, judge, skipped, type Verdict } from './check.ts'
import { clientCertificateCheck } from './client-certificate.ts'
import { clockChecks } from './clock.ts'
import { databaseChecks } from './database.ts'
import { encryptionCheck } from './encryption.ts'
import { installationChecks } from './installation.ts'
import { ledgerChecks } from './ledger.ts'
import { machineChecks } from './machine.ts'
import { proxyCheck } from './proxy.ts'
import { receiverChecks } from './receiver.ts'
import { scheduleCheck } from './schedule.ts'
import { settingsChecks } from './settings.ts'

/** What came of one check. */
export interface CheckLine extends Verdict {
  name: string
  title: string
  /** Why the check could not be made yet; undefined where it was made, or is not needed. */
  leftOut: string | undefined
}

export interface CheckOptions {
  source: SettingsSource
  open: CheckContext['open']
  onBegin?: (title: string) => void
}

const checks: readonly Check[] = [
  ...installationChecks,
  ...settingsChecks,
  ...databaseChecks,
  encryptionCheck,
  ...clockChecks,
  clientCertificateCheck,
  ...receiverChecks,
  proxyCheck,
  scheduleCheck,
  ...ledgerChecks,
  ...machineChecks,
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

/** The verdict on a check that threw: the check fails, and the others go on. */
function judgeError(check: Check, error: unknown, context: CheckContext): Verdict {
  // after a missing right or a time limit the database still answers other checks
  const isAway = isDatabaseError(error) && !['42501', '25006', '57014'].includes(codeOf(error) ?? '')
  if (check.needs && isAway) context.noDatabase ??= 'the database went away'
  const hint = error instanceof LeadpushError ? error.hint : undefined
  return judge('', [failure(messageOf(error), hint ?? 'Mend what it says, and run `leadpush validate` again.')])
}

interface Ran {
  verdict: Verdict
  leftOut?: string | undefined
  /** The time limit ended the check. */
  isLate: boolean
}

/** Never throws, and ends at the check's time limit. */
async function runCheck(check: Check, context: CheckContext): Promise<Ran> {
  const reason = check.needs && (context.noDatabase ?? (check.needs === 'tables' ? context.noTables : undefined))
  if (reason !== undefined) return { verdict: skipped(reason), leftOut: reason, isLate: false }
  const limitMs = check.limitMs ?? limitMsUsual
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<'late'>((resolve) => {
    timer = setTimeout(() => resolve('late'), limitMs)
  })
  const running = check.run(context).catch((error) => judgeError(check, error, context))
  const found = await Promise.race([running, late])
  clearTimeout(timer)
  if (found !== 'late') return { verdict: found, isLate: false }
  if (check.needs || check.name === 'database') context.noDatabase = 'the database fell silent'
  const message = `It did not end within ${limitMs / 1_000} s.`
  return {
    verdict: judge('', [failure(message, 'Find out what hangs, and run `leadpush validate` again.')]),
    isLate: true,
  }
}

/** The checks of one machine, in order; what they found out about settings and database stays. */
export class MachineChecks {
  readonly context: CheckContext
  /** Work that a check began has not ended. */
  hangs = false
  private readonly onBegin: ((title: string) => void) | undefined

  constructor(options: CheckOptions) {
    this.context = buildContext(options)
    this.onBegin = options.onBegin
  }

  async *run(signal?: AbortSignal): AsyncGenerator<CheckLine, void, undefined> {
    for (const check of checks) {
      if (signal?.aborted) return
      const { name, title } = check
      this.onBegin?.(title)
      const { verdict, leftOut, isLate } = await runCheck(check, this.context)
      this.hangs ||= isLate
      yield { name, title, ...verdict, leftOut }
    }
  }
}
