/** Checks the standbys of the database: whether commits wait for one, so that a failover loses nothing that was confirmed. */
import { plural } from '../../base/amounts.ts'
import type { ServerFacts } from '../../db/survey.ts'
import { type Check, failure, judge, skipped, type Trouble, type Verdict, warning } from './check.ts'

type Facts = Pick<
  ServerFacts,
  'standby' | 'role' | 'synchronousNames' | 'synchronousCommit' | 'standbys' | 'synchronousStandbys'
>

/** `ANY 2 (a, b, c)` as 2 and its names, in lower case; without a number one is enough. */
function readNames(names: string): { needed: number; named: string[] } {
  const [, number = '1', list = names] = /^\s*(?:first|any)?\s*(\d+)\s*\((.*)\)\s*$/is.exec(names) ?? []
  const named = list.split(',').map((name) =>
    name
      .trim()
      .replace(/^"(.*)"$/s, '$1')
      .replaceAll('""', '"')
      .toLowerCase(),
  )
  return { needed: Number(number), named }
}

function judgeCommits({ synchronousNames, standbys, synchronousStandbys }: Facts): Trouble[] {
  const { needed, named } = readNames(synchronousNames)
  const mayConfirm = standbys.filter((name) => named.includes('*') || named.includes(name.toLowerCase()))
  const present = synchronousStandbys ?? mayConfirm.length
  if (present >= needed) return []
  const attached = present === 0 ? 'no such standby is attached' : `only ${present} of ${needed} are attached`
  return [
    failure(
      `synchronous_standby_names is '${synchronousNames}', and ${attached}: commits wait, and nothing can be recorded.`,
      'Start the standby, under that application_name; or take it out of synchronous_standby_names, and reload the server.',
    ),
  ]
}

/** Whether what the server confirms is on a standby too. A server without standbys is judged by its durability alone. */
export function judgeStandbys(facts: Facts): Verdict {
  const { standby, role, synchronousNames: names, synchronousCommit, standbys, synchronousStandbys } = facts
  if (standby) return skipped('the server is a standby itself')
  const attached = `${plural(standbys.length, 'standby')} attached`
  if (names === '') {
    if (standbys.length === 0) return judge('there are none', [])
    const message = `${attached}, none of them synchronous: a failover may lose what was confirmed last. Then a key may be on the wire more than twice.`
    const remedy =
      'Set synchronous_standby_names (Patroni: synchronous_mode: true), best with two standbys, so that commits go on while one is away.'
    return judge('', [warning(message, remedy)])
  }
  const troubles = judgeCommits(facts)
  if (synchronousCommit === 'off' || synchronousCommit === 'local') {
    const message = `synchronous_commit is ${synchronousCommit}: a failover may take the last imports with it (attempts always wait for the standby).`
    troubles.push(warning(message, 'Set synchronous_commit = on, also where the role or the database has its own.'))
  }
  const unseen = `${attached}; whether it confirms commits only a role with pg_monitor sees (grant pg_monitor to "${role}")`
  return judge(synchronousStandbys === null ? unseen : `${attached}, ${synchronousStandbys} synchronous`, troubles)
}

export const standbysCheck: Check = {
  name: 'standbys',
  title: 'Standbys',
  needs: 'database',
  run: async ({ facts }) => judgeStandbys(facts as ServerFacts),
}
