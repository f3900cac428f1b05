/** `preview --user EMAIL --diff`: prints how a push would differ from the last weekly delivery that arrived. */

import { formatCount, plural } from '../../base/amounts.ts'
import type { Database } from '../../db/open.ts'
import { compareVersions, type Difference, findLastWeekly } from '../../inspect/delivery/find-diff.ts'
import type { FoundUser } from '../../users/users.ts'
import type { CommandIo } from '../command-io.ts'
import { paint } from '../painted.ts'

/** The most listings of each kind that are printed without --json; the rest are counted. */
const shownMax = 100

const colours = { new: 'green', changed: 'yellow', gone: 'red' } as const

function describe(difference: Difference): string {
  const { type, href } = difference
  const fields = difference.type === 'changed' ? `  ${paint('dim', difference.fields.join(', '))}` : ''
  return `${paint(colours[type], type.padEnd('changed'.length))}  ${href ?? '(a listing that is not kept any more)'}${fields}`
}

/** `planned`: the versions of the listings that would be sent. */
export async function writeDiff(
  io: CommandIo,
  db: Database,
  { user }: FoundUser,
  planned: readonly number[],
  period: string,
): Promise<void> {
  const last = await findLastWeekly(db, user.id)
  const { counts, differences } = compareVersions(db, last?.versionIds ?? [], planned)
  const shown = { new: 0, changed: 0, gone: 0 }
  for await (const difference of differences) {
    if (io.out.isJson) await io.out.json(difference)
    else if (++shown[difference.type] <= shownMax) await io.out.line(describe(difference))
  }
  if (io.out.isJson) {
    const against = last && { period: last.period, createdAt: last.createdAt, idempotencyKeys: last.idempotencyKeys }
    await io.out.json({ type: 'diff', user: user.email, period, against: against ?? null, ...counts })
    return
  }
  const unshown = Object.values(shown).reduce((sum, n) => sum + Math.max(0, n - shownMax), 0)
  await io.out.more(unshown)
  if (counts.new + counts.changed + counts.gone > 0) await io.out.line('')
  const beside = last
    ? `Against the weekly delivery of ${last.period}`
    : `No weekly delivery was delivered to ${user.email} yet`
  const sums = `${formatCount(counts.new)} new, ${formatCount(counts.changed)} changed, ${formatCount(counts.gone)} gone`
  await io.out.paragraph(`${beside}: ${sums}, ${plural(counts.unchanged, 'listing')} unchanged.`)
}
