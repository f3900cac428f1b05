/** The part of a report on failed deliveries: causes with what to do, users, hooks. */
import { plural } from '../../../base/amounts.ts'
import { counted, numberColumns } from '../../../base/table.ts'
import { buildSection } from '../../page/document.ts'
import { type Html, html } from '../../page/html.ts'
import { buildTable } from '../../page/table.ts'
import { causeOf, forEverybody, formatAnswer } from '../../status/causes.ts'
import { describeLast } from '../../status/hooks-in-trouble.ts'
import type { Figures } from '../figures/find-figures.ts'
import type { Cut } from '../figures/troubles.ts'
import type { Wording } from './wording.ts'

const moreOf = ({ total, first }: Cut<unknown>, noun: string) =>
  total > first.length ? `… and ${plural(total - first.length, noun)} more.` : undefined

/** An error, followed by what the receiver said. */
const withAnswers = (error: string, answers: readonly string[]) =>
  answers.length === 0 ? error : `${error}. It said: ${answers.join(' | ')}`

function buildCauses({ causes: found, users, weeks }: Figures, { time }: Wording): Html {
  const arrived = weeks.slice(-2).reduce((sum, { delivered }) => sum + delivered, 0)
  const causes = forEverybody(found, { arrived, users: users.total })
  return buildTable({
    caption: 'Why, and what to do',
    columns: [
      { head: 'cause', wide: true },
      { head: 'what to do', wide: true },
      ...numberColumns('failed', 'unknown', 'this week'),
      { head: 'last' },
    ],
    rows: causes.map(({ what, toDo, failed, unknown, thisPeriod, last, answers }) => [
      withAnswers(what, answers.map(formatAnswer)),
      toDo,
      counted(failed, 'bad'),
      counted(unknown, 'doubtful'),
      counted(thisPeriod),
      time(last),
    ]),
  })
}

function buildUsers({ users }: Figures, { time }: Wording): Html {
  return buildTable({
    caption: 'Users in trouble',
    columns: [
      { head: 'user' },
      ...numberColumns('failed', 'unknown', 'stuck'),
      { head: 'last' },
      { head: 'why', wide: true },
    ],
    rows: users.first.map(({ email, failed, unknown, stuck, last, error, answer }) => [
      email,
      counted(failed, 'bad'),
      counted(unknown, 'doubtful'),
      counted(stuck, 'bad'),
      time(last),
      error === null ? '' : withAnswers(causeOf({ error, httpStatus: null }).what, answer === null ? [] : [answer]),
    ]),
    more: moreOf(users, 'user'),
  })
}

/** The host of a hook's URL: the whole URL would let every reader start the workflow. */
const hostOf = (url: string) => (URL.canParse(url) ? new URL(url).host : '')

function buildHooks({ hooks }: Figures, { time }: Wording): Html {
  return buildTable({
    caption: 'Hooks in trouble',
    columns: [
      { head: 'user' },
      { head: 'hook', wide: true },
      ...numberColumns('failing', 'given up', 'dropped'),
      { head: 'off since' },
      { head: 'last attempt' },
      { head: 'why', wide: true },
    ],
    rows: hooks.first.map((hook) => [
      hook.user,
      `${hostOf(hook.url)}, ${hook.id}`,
      counted(hook.failing, 'doubtful'),
      counted(hook.abandoned, 'bad'),
      counted(hook.dropped, 'doubtful'),
      time(hook.offSince),
      time(hook.lastAt),
      // a hook with dropped listings may have had no attempt, which is no reason
      hook.isDelivered || hook.error !== null
        ? withAnswers(describeLast(hook), hook.answer === null ? [] : [hook.answer])
        : '',
    ]),
    more: moreOf(hooks, 'hook'),
  })
}

/** Whether a delivery of this week or the one before did not arrive, or a hook is in trouble. */
export const hasTroubles = ({ causes, users, hooks }: Figures): boolean =>
  causes.length > 0 || users.total > 0 || hooks.total > 0

export function buildTroubles(figures: Figures, wording: Wording): Html {
  const { causes, users, hooks } = figures
  return buildSection({
    id: 'troubles',
    title: 'What did not arrive',
    ...(hasTroubles(figures) && { intro: 'Causes, users and hooks are those of this week and the one before.' }),
    body: hasTroubles(figures)
      ? html`${causes.length > 0 && buildCauses(figures, wording)}${
          users.total > 0 &&
          html`${buildUsers(figures, wording)}<p class="note">Users with a failed or unknown delivery, and no later one that arrived; their attempts: <code>leadpush status --user EMAIL</code></p>
`
        }${hooks.total > 0 && buildHooks(figures, wording)}`
      : html`<p>Everything that was sent in this week and the one before arrived, and no hook is in trouble.</p>
`,
  })
}
