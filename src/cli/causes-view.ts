/** Why deliveries did not arrive, for people: a cause, its users, and what to do, in lines that fit the terminal. */

import { formatCount } from '../base/amounts.ts'
import { type CauseGroup, forEverybody, formatAnswer } from '../inspect/status/causes.ts'
import type { CommandIo } from './command-io.ts'
import { paint } from './painted.ts'

interface CausesOptions {
  title: string
  /** How many groups are shown, and how many users each was kept with. */
  causesShown: number
  usersShown: number
  /** How many deliveries arrived beside these: if all failed alike, the cause does not lie with single users. */
  arrived?: number
}

export async function writeCauses(io: CommandIo, groups: readonly CauseGroup[], options: CausesOptions): Promise<void> {
  if (groups.length === 0) return
  const { title, causesShown, usersShown, arrived = 1 } = options
  await io.out.title(title)
  const width = Math.max(...groups.map(({ deliveries }) => formatCount(deliveries).length))
  const causes = forEverybody(groups, { arrived, users: groups[0]?.users.length ?? 0 })
  for (const group of causes.slice(0, causesShown)) await writeCause(io, group, width, usersShown)
  const more = groups.slice(causesShown)
  if (more.length === 0) return
  const deliveries = more.reduce((sum, group) => sum + group.deliveries, 0)
  await io.out.more(deliveries, undefined, ' of other causes: leadpush report --out FILE.html shows all')
}

async function writeCause(
  io: CommandIo,
  { what, toDo, deliveries, users, answers }: CauseGroup,
  width: number,
  usersShown: number,
) {
  const margin = ' '.repeat(width + 2)
  await io.out.line(`${formatCount(deliveries).padStart(width)}  ${io.out.wrap(what, width + 2)}`)
  const others = users.length === usersShown && deliveries > users.length ? [...users, '…'] : users
  if (users.length > 0) await io.out.line(`${margin}${paint('dim', io.out.wrap(others.join(', '), width + 2))}`)
  for (const answer of answers)
    await io.out.line(`${margin}${io.out.wrap(`It said: ${formatAnswer(answer)}`, width + 4)}`)
  if (toDo !== '') await io.out.line(`${margin}${io.out.wrap(toDo, width + 2)}`)
}
