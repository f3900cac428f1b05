/**
 * The output of a push: JSON lines, or for people each failure as it comes (on a terminal each delivery), the progress, a
 * summary, and the causes of failed deliveries.
 */

import { bytes, formatCount, formatRate, plural, seconds } from '../../base/amounts.ts'
import type { DeliveryLine, PushLine, SummaryLine } from '../../index.ts'
import { adviseOn, tellSteps, toAdvice, troublesOf } from '../../inspect/status/advise-on.ts'
import { CauseTally } from '../../inspect/status/causes.ts'
import type { PushEnd } from '../../push/push-request.ts'
import type { PushReporter } from '../../push/reporter.ts'
import { writeCauses } from '../causes-view.ts'
import type { CommandIo } from '../command-io.ts'
import { formatDelivery } from '../deliveries/format.ts'
import { paint } from '../painted.ts'
import { startProgress } from '../progress.ts'
import { ProgressCount } from './progress.ts'

/** How many lines of each type a person is shown; further ones are counted. */
const shownMax = 20
const causesShown = 5
/** How many users are named for each cause. */
const usersShown = 3

export interface PushView {
  reporter: PushReporter
  end(end: PushEnd): Promise<void>
}

interface ViewOptions {
  single: boolean
  notSubscribed?: string | undefined
  /** Said before the first thing that happens: a push with nothing to do then prints nothing. */
  opening?: string | undefined
}

const isTrouble = ({ status }: DeliveryLine) => status === 'failed' || status === 'unknown'

/** For so many deliveries that have not ended the last message is kept. */
const answersMax = 10_000

/** `answer`: what the receiver said. */
export function describeLine(line: Exclude<PushLine, SummaryLine>, answer?: string): string {
  if (line.type === 'skip') return `${line.user ?? 'all users'}  ${paint('yellow', 'skipped')}  ${line.reason}`
  if (line.type === 'warning') {
    const about = line.href === null ? '' : `${line.href}: `
    return `${line.user}  ${paint('yellow', 'warning')}  ${about}${line.message}`
  }
  const why = line.error === null || answer === undefined ? line.error : `${line.error}. It said: ${answer}`
  return formatDelivery(line, why)
}

export async function createPushView(
  io: CommandIo,
  { single, notSubscribed, opening }: ViewOptions,
): Promise<PushView> {
  let untold = opening
  const tellOpening = () => {
    if (untold !== undefined) io.log.info(untold)
    untold = undefined
  }
  const count = new ProgressCount()
  const causes = new CauseTally(usersShown)
  const answers = new Map<string, string>()
  const takeAnswer = (key: string | null) => {
    const answer = answers.get(key ?? '')
    answers.delete(key ?? '')
    return answer
  }
  // delivered ones never take the lines of failed ones
  const shown = { delivery: 0, trouble: 0, skip: 0, warning: 0 }
  const showsAll = single || io.stdout.isTTY === true
  const progress = await startProgress(
    io,
    (columns) => count.text(columns),
    () => count.logText(),
  )
  const show = (line: Exclude<PushLine, SummaryLine>, answer: string | undefined): void => {
    const type = line.type === 'delivery' && isTrouble(line) ? 'trouble' : line.type
    const isShown = (type !== 'delivery' || showsAll) && ++shown[type] <= shownMax
    io.out.resultSoon(line, ...(isShown ? [describeLine(line, answer)] : []))
  }
  const reporter: PushReporter = {
    line(line) {
      if (line.type === 'summary') return
      tellOpening()
      count.add(line)
      const answer = line.type === 'delivery' ? takeAnswer(line.idempotencyKey) : undefined
      if (line.type === 'delivery' && isTrouble(line)) causes.add({ ...line, answer })
      show(line, answer)
    },
    note(text) {
      tellOpening()
      io.log.warn(text)
    },
    waits: (what) => count.waits(what),
    pace: (ratePerSecond) => count.setPace(ratePerSecond),
    total: (users) => count.setTotal(users),
    attempt(attempt) {
      tellOpening()
      count.noteAttempt(attempt)
      const { runId, idempotencyKey, durationMs, httpStatus, error, answer } = attempt
      if (answer === undefined) answers.delete(idempotencyKey)
      else if (answers.size < answersMax) answers.set(idempotencyKey, answer)
      io.log.detail(error === null ? 'attempt succeeded' : 'attempt failed', {
        run: runId,
        delivery: idempotencyKey,
        attempt: `${idempotencyKey}#${attempt.attempt}`,
        durationMs: Math.round(durationMs),
        httpStatus,
        error,
      })
    },
  }
  return {
    reporter,
    async end(end) {
      progress.stop()
      const { summary } = end
      const steps = adviseOn(troublesOf(end, notSubscribed))
      const isNothing = untold !== undefined && end.ok
      if (!isNothing) tellOpening()
      if (io.out.isJson) return await io.out.json({ ...summary, ...(steps.length > 0 && { advice: toAdvice(steps) }) })
      // an earlier run has reported all of it
      if (isNothing || end.toldBefore) return
      const unshown = Object.values(shown).reduce((sum, lines) => sum + Math.max(0, lines - shownMax), 0)
      await io.out.more(unshown)
      await writeSummary(io, summary)
      // for a single user the line above names the cause
      if (!single) {
        const title = 'Not delivered, by cause'
        await writeCauses(io, causes.top(), { title, causesShown, usersShown, arrived: summary.delivered })
      }
      if (steps.length > 0) await io.out.paragraph('', tellSteps(steps))
    },
  }
}

const pendingOf = ({ deliveries, delivered, failed, unknown }: SummaryLine) => deliveries - delivered - failed - unknown

async function writeSummary(io: CommandIo, summary: SummaryLine): Promise<void> {
  const { failed, unknown, skipped, already, elsewhere, owed, sameHouse = 0, allowedPerSecond } = summary
  const pending = pendingOf(summary)
  await io.out.facts([
    ['period', summary.period],
    ['users', formatCount(summary.users)],
    ['delivered', paint('green', plural(summary.delivered, 'delivery'))],
    failed > 0 && ['failed', paint('red', plural(failed, 'delivery'))],
    unknown > 0 && ['unknown', paint('yellow', plural(unknown, 'delivery'))],
    pending > 0 && ['pending', `${plural(pending, 'delivery')} with an attempt to come`],
    skipped > 0 && ['skipped', plural(skipped, 'user')],
    already > 0 && ['had theirs', plural(already, 'user')],
    elsewhere > 0 && ['elsewhere', `${formatCount(elsewhere)}: another process is working on them`],
    owed > 0 && ['owed', `${plural(owed, 'user')} not served by this run`],
    sameHouse > 0 && ['same house', `${plural(sameHouse, 'listing')} left out: another of the house counts`],
    ['leads', formatCount(summary.leads)],
    ['bytes', bytes(summary.bytes)],
    ['took', seconds(summary.seconds)],
    allowedPerSecond !== undefined && ['pace', `the receiver allowed ${formatRate(allowedPerSecond)}`],
  ])
}
