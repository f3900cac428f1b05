/** Checks the standbys of the database: whether commits wait for one, so that a failover loses nothing that was confirmed. */
import { plural } from '../../base/amounts.ts'
import type { ServerFacts } from '../../db/survey.ts'
import { type Found, note, problem } from '../finding.ts'

type Facts = Pick<
  ServerFacts,
  'standby' | 'synchronousNames' | 'synchronousCommit' | 'standbys' | 'synchronousStandbys'
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

function judgeCommits({ synchronousNames, standbys, synchronousStandbys }: Facts): Found[] {
  const { needed, named } = readNames(synchronousNames)
  const mayConfirm = standbys.filter((name) => named.includes('*') || named.includes(name.toLowerCase()))
  // without the right to see that, a standby with a right name counts as one that confirms
  const present = synchronousStandbys ?? mayConfirm.length
  if (present >= needed) return []
  const attached = present === 0 ? 'no such standby is attached' : `only ${present} of ${needed} are attached`
  const what = `synchronous_standby_names is '${synchronousNames}', and ${attached}: commits wait, and nothing can be recorded`
  const toDo =
    'Start the standby, under that application_name; or take it out of synchronous_standby_names, and reload the server.'
  return [problem(what, toDo)]
}

/** Whether confirmed commits are on a standby too. A server without standbys is judged by its durability alone. */
export function judgeStandbys(facts: Facts): Found[] {
  const { standby, synchronousNames, synchronousCommit, standbys } = facts
  if (standby) return []
  if (synchronousNames === '') {
    if (standbys.length === 0) return []
    const what = `${plural(standbys.length, 'standby')} attached, none of them synchronous: a failover may lose the last confirmed changes, and then a key may be on the wire more than twice`
    const toDo =
      'Set synchronous_standby_names (Patroni: synchronous_mode: true), best with two standbys, so that commits go on while one is away.'
    return [note(what, toDo)]
  }
  const found = judgeCommits(facts)
  if (synchronousCommit === 'off' || synchronousCommit === 'local') {
    const what = `synchronous_commit is ${synchronousCommit}: a failover may take the last imports with it (attempts always wait for the standby)`
    found.push(note(what, 'Set synchronous_commit = on, also where the role or the database has its own.'))
  }
  return found
}
