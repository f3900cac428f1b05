/** The part of a report on failed deliveries: causes with what to do, hooks. */
import { plural } from '../../../base/amounts.ts'
import { counted, numberColumns } from '../../../base/table.ts'
import { buildSection } from '../../page/document.ts'
import { type Html, html } from '../../page/html.ts'
import { buildTable } from '../../page/table.ts'
import { forEverybody, formatAnswer } from '../../status/causes.ts'
import { describeLast } from '../../status/hooks-in-trouble.ts'
import type { Figures } from '../figures/find-figures.ts'
import type { Wording } from './wording.ts'

/** An error, followed by what the receiver said. */
const withAnswers = (error: string, answers: readonly string[]) =>
  answers.length === 0 ? error : `${error}. It said: ${answers.join(' | ')}`

function buildCauses({ causes: found, status }: Figures, { time }: Wording): Html {
  const { delivered, failedWithoutLater, unknownWithoutLater } = status
  const causes = forEverybody(found, { arrived: delivered, users: failedWithoutLater + unknownWithoutLater })
  return buildTable({
    caption: 'Why, and what to do',
    columns: [
      { head: 'cause', wide: true },
      { head: 'what to do', wide: true },
      ...numberColumns('failed', 'unknown'),
      { head: 'last' },
      { head: 'users', wide: true },
    ],
    rows: causes.map(({ what, toDo, deliveries, failed, unknown, last, answers, users }) => [
      withAnswers(what, answers.map(formatAnswer)),
      toDo,
      counted(failed, 'bad'),
      counted(unknown, 'doubtful'),
      time(last),
      [...users, ...(users.length > 0 && deliveries > users.length ? ['…'] : [])].join(', '),
    ]),
  })
}

/** The host of a hook's URL: the whole URL would let every reader start the workflow. */
const hostOf = (url: string) => (URL.canParse(url) ? new URL(url).host : '')

function buildHooks({ hooks, status }: Figures, { time }: Wording): Html {
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
    rows: hooks.map((hook) => [
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
    ...(status.hooksInTrouble > hooks.length && {
      more: `… and ${plural(status.hooksInTrouble - hooks.length, 'hook')} more: \`leadpush integrations list\`.`,
    }),
  })
}

/** Whether a delivery of the week did not arrive, or a hook is in trouble. */
export const hasTroubles = ({ causes, hooks }: Figures): boolean => causes.length > 0 || hooks.length > 0

export function buildTroubles(figures: Figures, wording: Wording): Html {
  const { causes, hooks } = figures
  return buildSection({
    id: 'troubles',
    title: 'What did not arrive',
    body: hasTroubles(figures)
      ? html`${
          causes.length > 0 &&
          html`${buildCauses(figures, wording)}<p class="note">Deliveries of this week, without those that a later one made good. All of them: <code>leadpush deliveries list --status failed --status unknown</code></p>
`
        }${hooks.length > 0 && buildHooks(figures, wording)}`
      : html`<p>Everything that was sent in this week arrived, and no hook is in trouble.</p>
`,
  })
}
