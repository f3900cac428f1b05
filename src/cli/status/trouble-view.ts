/**
 * What `status` shows of deliveries and hooks: paragraphs that wrap, so that no e-mail and no cause is cut where the terminal is
 * narrow.
 */

import { bytes, count, plural } from '../../base/amounts.ts'
import type { Database } from '../../db/open.ts'
import { causesShown, findEnded, findStuck, usersShown } from '../../inspect/status/not-delivered.ts'
import type { Status } from '../../inspect/status/status.ts'
import type { UserDelivery } from '../../inspect/status/user-deliveries.ts'
import type { HookInTrouble } from '../../triggers/hooks-in-trouble.ts'
import { writeCauses } from '../causes-view.ts'
import { wrap, writeLine } from '../output.ts'
import { paint, paintStatus } from '../painted.ts'

type Time = (at: Date | null) => string

export async function writeStuck(db: Database, time: Time): Promise<void> {
  const { groups, since } = await findStuck(db)
  // they get their second attempt, whatever the cause
  const causes = groups.map((group) => ({ ...group, remedy: '' }))
  await writeCauses(causes, { title: `Stuck, by their last error (since ${time(since)})`, causesShown, usersShown })
}

/** Those that a later delivery has made good are counted alone. */
export async function writeEnded(db: Database, { period, delivered, failed, unknown }: Status): Promise<void> {
  const { groups, deliveries } = await findEnded(db, period)
  const title = 'Not delivered in this period, by cause'
  await writeCauses(groups, { title, causesShown, usersShown, arrived: delivered })
  const madeGood = failed + unknown - deliveries
  if (madeGood <= 0) return
  const text = `${plural(madeGood, 'delivery')} that failed or may not have arrived: the user got a later one.`
  await writeLine('', wrap(text, 0))
}

export async function writeHooks(hooks: HookInTrouble[], total: number, time: Time): Promise<void> {
  await writeLine('', paint('bold', 'Hooks in trouble'))
  for (const { lastAt, user, url, failing, abandoned, error } of hooks) {
    const counts = [failing > 0 && `${count(failing)} failing`, abandoned > 0 && `${count(abandoned)} abandoned`]
    const last = `last attempt ${time(lastAt)}: ${error ?? 'it was delivered'}`
    await writeLine(wrap(`${user}: ${url}`, 2), `  ${wrap(`${counts.filter(Boolean).join(', ')}; ${last}`, 2)}`)
  }
  if (total > hooks.length) await writeLine(`… and ${plural(total - hooks.length, 'hook')} more.`)
}

const partOf = ({ part, parts }: { part: number; parts: number }) => (parts > 1 ? ` ${part}/${parts}` : '')

/** The deliveries of one user, each with its attempts below it. */
export async function writeDeliveries(deliveries: UserDelivery[], time: Time): Promise<void> {
  for (const delivery of deliveries) {
    const { period, kind, leads, status, attemptLog, error } = delivery
    const what = `${kind}${partOf(delivery)}, ${plural(leads, 'lead')}, ${bytes(delivery.bytes)}`
    await writeLine(`${period}  ${paintStatus(status)}  ${what}`)
    if (attemptLog.length === 0 && error !== null) await writeLine(`  ${wrap(error, 2)}`)
    for (const [at, attempt] of attemptLog.entries()) {
      const took = attempt.durationMs === null ? '' : `, ${count(attempt.durationMs)} ms`
      const answer = attempt.httpStatus === null ? 'no outcome yet' : `HTTP ${attempt.httpStatus}`
      // why it ended may be more than what the last attempt came to
      const why = (at === attemptLog.length - 1 ? error : undefined) ?? attempt.error ?? answer
      await writeLine(`  ${wrap(`${time(attempt.at)}${took}: ${why}`, 4)}`)
    }
  }
}
