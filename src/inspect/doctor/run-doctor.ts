/**
 * `doctor` checks this machine, from the program itself to the receiver; a check comes after those that it depends on. It sends
 * no delivery, writes nothing, and gives up on a check that hangs.
 */
import { inspectSettings, readProxies, type SettingsSource, settingNames } from '../../base/config.ts'
import { codeOf, LeadpushError, messageOf } from '../../base/errors.ts'
import { isDatabaseError } from '../../db/away.ts'
import { type Check, type DoctorContext, failure, judge, type Status, skipped, type Verdict } from './check.ts'
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

/** A line of `doctor --json` for one check. */
export interface CheckLine {
  type: 'check'
  name: string
  title: string
  status: Status
  message: string
  /** What to do; null where all is well. */
  remedy: string | null
  /** Each trouble with its own remedy; empty where all is well. */
  troubles: Verdict['troubles']
}

/** The last line of `doctor --json`; the counts are those of checks. */
export interface SummaryLine {
  type: 'summary'
  status: 'pass' | 'warn' | 'fail'
  checks: number
  passed: number
  warned: number
  failed: number
  skipped: number
  seconds: number
}

export interface DoctorOptions {
  source: SettingsSource
  open: DoctorContext['open']
  onBegin?: (title: string) => void
  onCheck(line: CheckLine): Promise<void>
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

/** The longest title, in characters. */
export const titleChars = Math.max(...checkTitles.map((title) => title.length))

const limitMsUsual = 5_000

function buildContext({ source, open }: DoctorOptions): DoctorContext {
  const inspection = inspectSettings(settingNames, source)
  let proxies: DoctorContext['proxies']
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

/** The verdict on a check that threw: the check fails, and `doctor` goes on. */
function judgeError(check: Check, error: unknown, context: DoctorContext): Verdict {
  // after a missing right or a time limit the database still answers other checks
  const isAway = isDatabaseError(error) && !['42501', '25006', '57014'].includes(codeOf(error) ?? '')
  if (check.needs && isAway) context.noDatabase ??= 'the database went away'
  const hint = error instanceof LeadpushError ? error.hint : undefined
  return judge('', [failure(messageOf(error), hint ?? 'Mend what it says, and run `leadpush doctor` again.')])
}

/** Never throws, and ends at the check's time limit. `isLate`: the limit ended the check. */
async function runCheck(check: Check, context: DoctorContext): Promise<{ verdict: Verdict; isLate: boolean }> {
  const reason = check.needs && (context.noDatabase ?? (check.needs === 'tables' ? context.noTables : undefined))
  if (reason !== undefined) return { verdict: skipped(reason), isLate: false }
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
    verdict: judge('', [failure(message, 'Find out what hangs, and run `leadpush doctor` again.')]),
    isLate: true,
  }
}

/** Runs all checks in order. `hangs`: work that a check began has not ended. */
export async function runDoctor(options: DoctorOptions): Promise<{ summary: SummaryLine; hangs: boolean }> {
  const beganMs = performance.now()
  const counts: Record<Status, number> = { pass: 0, warn: 0, fail: 0, skipped: 0 }
  const context = buildContext(options)
  let hangs = false
  for (const check of checks) {
    options.onBegin?.(check.title)
    const { verdict, isLate } = await runCheck(check, context)
    hangs ||= isLate
    counts[verdict.status]++
    const { name, title } = check
    const remedy = verdict.troubles.map((trouble) => trouble.remedy).join(' ') || null
    await options.onCheck({ type: 'check', name, title, ...verdict, remedy })
  }
  const summary: SummaryLine = {
    type: 'summary',
    status: counts.fail > 0 ? 'fail' : counts.warn > 0 ? 'warn' : 'pass',
    checks: checks.length,
    passed: counts.pass,
    warned: counts.warn,
    failed: counts.fail,
    skipped: counts.skipped,
    seconds: Math.round(performance.now() - beganMs) / 1_000,
  }
  return { summary, hangs }
}
