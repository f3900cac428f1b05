/** What did not arrive, in a report: causes with what to do, users, hooks. */
import { count, plural } from '../../../base/amounts.ts'
import { buildSection } from '../../page/document.ts'
import { type Html, html } from '../../page/html.ts'
import { buildTable, type Cell } from '../../page/table.ts'
import { causeOf, forEverybody } from '../../status/causes.ts'
import type { Figures } from '../figures/find-figures.ts'
import type { Cut } from '../figures/troubles.ts'
import type { Wording } from './wording.ts'

const number = (value: number, tone?: 'bad' | 'doubtful'): Cell => ({
  text: count(value),
  sort: value,
  ...(value > 0 && tone && { tone }),
})

const moreOf = ({ total, first }: Cut<unknown>, noun: string) =>
  total > first.length ? `… and ${plural(total - first.length, noun)} more.` : undefined

function buildCauses({ causes: found, users, weeks }: Figures, { time }: Wording): Html {
  const arrived = weeks.slice(-2).reduce((sum, { delivered }) => sum + delivered, 0)
  const causes = forEverybody(found, { arrived, users: users.total })
  return buildTable({
    caption: 'Why, and what to do',
    columns: [
      { head: 'cause', wide: true },
      { head: 'what to do', wide: true },
      { head: 'failed', isNumber: true },
      { head: 'unknown', isNumber: true },
      { head: 'this week', isNumber: true },
      { head: 'last' },
    ],
    rows: causes.map(({ cause, remedy, failed, unknown, thisWeek, last }) => [
      cause,
      remedy,
      number(failed, 'bad'),
      number(unknown, 'doubtful'),
      number(thisWeek),
      time(last),
    ]),
  })
}

function buildUsers({ users }: Figures, { time }: Wording): Html {
  return buildTable({
    caption: 'Users in trouble',
    columns: [
      { head: 'user' },
      { head: 'failed', isNumber: true },
      { head: 'unknown', isNumber: true },
      { head: 'stuck', isNumber: true },
      { head: 'last' },
      { head: 'why', wide: true },
    ],
    rows: users.first.map(({ email, failed, unknown, stuck, last, error }) => [
      email,
      number(failed, 'bad'),
      number(unknown, 'doubtful'),
      number(stuck, 'bad'),
      time(last),
      error === null ? '' : causeOf({ error, httpStatus: null }).cause,
    ]),
    more: moreOf(users, 'user'),
  })
}

/** Of a hook's URL the host alone: the rest lets whoever has it start a workflow. */
const hostOf = (url: string) => (URL.canParse(url) ? new URL(url).host : '')

function buildHooks({ hooks }: Figures, { time }: Wording): Html {
  return buildTable({
    caption: 'Hooks in trouble',
    columns: [
      { head: 'user' },
      { head: 'hook', wide: true },
      { head: 'failing', isNumber: true },
      { head: 'given up', isNumber: true },
      { head: 'last attempt' },
      { head: 'why', wide: true },
    ],
    rows: hooks.first.map(({ user, id, url, failing, abandoned, lastAt, error }) => [
      user,
      `${hostOf(url)}, ${id}`,
      number(failing, 'doubtful'),
      number(abandoned, 'bad'),
      time(lastAt),
      error ?? 'the last one was delivered',
    ]),
    more: moreOf(hooks, 'hook'),
  })
}

export function buildTroubles(figures: Figures, wording: Wording): Html {
  const { causes, users, hooks } = figures
  const isNone = causes.length === 0 && users.total === 0 && hooks.total === 0
  return buildSection({
    id: 'troubles',
    title: 'What did not arrive',
    intro: 'In this week and the one before.',
    body: isNone
      ? html`<p>Everything that was sent arrived, and no hook is in trouble.</p>
`
      : html`${causes.length > 0 && buildCauses(figures, wording)}${
          users.total > 0 &&
          html`${buildUsers(figures, wording)}<p class="note">Users with a delivery that failed, or of which it is unknown, and none later that arrived; their attempts: <code>leadpush status --user EMAIL</code></p>
`
        }${hooks.total > 0 && buildHooks(figures, wording)}`,
  })
}
