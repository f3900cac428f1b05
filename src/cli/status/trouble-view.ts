/**
 * Prints the deliveries and hooks of `status` as paragraphs that wrap, so that a narrow terminal cuts no e-mail and no cause.
 */

import { bytes, formatCount, partOf, plural, shortId } from '../../base/amounts.ts'
import type { Database } from '../../db/open.ts'
import { describeLast, type HookInTrouble } from '../../inspect/status/hooks-in-trouble.ts'
import { causesShown, findEnded, findStuck, usersShown } from '../../inspect/status/not-delivered.ts'
import type { Status } from '../../inspect/status/status.ts'
import type { AttemptReport, UserDelivery } from '../../inspect/status/user-deliveries.ts'
import { writeCauses } from '../causes-view.ts'
import type { CommandIo } from '../command-io.ts'
import { paintStatus } from '../painted.ts'

type Time = (at: Date | null) => string

export async function writeStuck(io: CommandIo, db: Database, time: Time, keepAnswers: 'on' | 'off'): Promise<void> {
  const groups = await findStuck(db, keepAnswers)
  const since = new Date(Math.min(...groups.map(({ first }) => first.getTime())))
  // no advice: these get their second attempt, for any cause
  const causes = groups.map((group) => ({ ...group, toDo: '' }))
  await writeCauses(io, causes, { title: `Stuck, by their last error (since ${time(since)})`, causesShown, usersShown })
}

/** Prints failed and unknown deliveries by cause. Those with a later delivery that arrived or is pending are only counted. */
export async function writeEnded(
  io: CommandIo,
  db: Database,
  { period, delivered, failed, unknown }: Status,
  keepAnswers: 'on' | 'off',
): Promise<void> {
  const groups = await findEnded(db, period, keepAnswers)
  const title = 'Not delivered in this period, by cause'
  await writeCauses(io, groups, { title, causesShown, usersShown, arrived: delivered })
  const madeGood = groups.reduce((rest, { deliveries }) => rest - deliveries, failed + unknown)
  if (madeGood <= 0) return
  const text = `${plural(madeGood, 'delivery')} that failed or may not have arrived: a later one was delivered, or is to come.`
  await io.out.paragraph('', text)
}

export async function writeHooks(io: CommandIo, hooks: HookInTrouble[], total: number, time: Time): Promise<void> {
  await io.out.title('Hooks in trouble')
  for (const hook of hooks) {
    const { id, lastAt, user, url, failing, abandoned, dropped, offSince, error, answer } = hook
    const counts = [
      failing > 0 && `${formatCount(failing)} failing`,
      abandoned > 0 && `${formatCount(abandoned)} abandoned`,
      dropped > 0 && `${formatCount(dropped)} dropped`,
      offSince !== null && `switched off ${time(offSince)}`,
    ]
    const last = `last attempt${lastAt === null ? '' : ` ${time(lastAt)}`}: ${describeLast(hook)}`
    await io.out.line(
      io.out.wrap(`${user}: ${url}`, 2),
      `  ${io.out.wrap(`hook ${shortId(id)}: ${counts.filter(Boolean).join(', ')}; ${last}`, 2)}`,
    )
    if (error !== null && answer !== null) await writeAnswer(io, answer, 2)
  }
  await io.out.more(total - hooks.length, 'hook', ': leadpush integrations list')
}

const writeAnswer = (io: CommandIo, answer: string, margin: number) =>
  io.out.line(`${' '.repeat(margin)}${io.out.wrap(`It said: ${answer}`, margin + 2)}`)

/** The deliveries of one user, each with its attempts below it. */
export async function writeDeliveries(io: CommandIo, deliveries: UserDelivery[], time: Time): Promise<void> {
  for (const delivery of deliveries) {
    const { period, kind, leads, status, attemptLog, error } = delivery
    const what = `${kind}, ${plural(leads, 'lead')}, ${bytes(delivery.bytes)}${partOf(delivery)}`
    await io.out.line(`${period}  ${paintStatus(status)}  ${what}`)
    await writeAttempts(io, attemptLog, error, time)
  }
}

/** `error`: why the delivery ended. If that is not the outcome of an attempt, it has its own line below the attempts. */
export async function writeAttempts(
  io: CommandIo,
  log: readonly AttemptReport[],
  error: string | null,
  time: Time,
): Promise<void> {
  for (const attempt of log) {
    const took = attempt.durationMs === null ? '' : `, ${formatCount(attempt.durationMs)} ms`
    const status = attempt.httpStatus === null ? 'no outcome yet' : `HTTP ${attempt.httpStatus}`
    const why = attempt.error ?? status
    await io.out.line(`  ${io.out.wrap(`${time(attempt.at)}${took}: ${why}`, 4)}`)
    if (attempt.answer !== null) await writeAnswer(io, attempt.answer, 4)
  }
  if (error !== null && log.every((attempt) => attempt.error !== error)) await io.out.line(`  ${io.out.wrap(error, 2)}`)
}
