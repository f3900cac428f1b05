/** Checks the standbys of the database: whether commits wait for one, so that a failover loses nothing that was confirmed. */
import { plural } from '../../base/amounts.ts'
import type { ServerFacts } from '../../db/survey.ts'
import { type Found, note } from '../finding.ts'

/** A server without standbys is judged by its durability alone. A push tells when commits wait for a standby that is not there. */
export function judgeStandbys({
  standby,
  synchronousNames,
  synchronousCommit,
  standbys,
}: Pick<ServerFacts, 'standby' | 'synchronousNames' | 'synchronousCommit' | 'standbys'>): Found[] {
  if (standby) return []
  if (synchronousNames === '') {
    if (standbys === 0) return []
    const what = `${plural(standbys, 'standby')} attached, none of them synchronous: a failover may lose the last confirmed changes, and then a key may be on the wire more than twice`
    const toDo =
      'Set synchronous_standby_names (Patroni: synchronous_mode: true), best with two standbys, so that commits go on while one is away.'
    return [note(what, toDo)]
  }
  if (synchronousCommit !== 'off' && synchronousCommit !== 'local') return []
  const what = `synchronous_commit is ${synchronousCommit}: a failover may take the last imports with it (attempts always wait for the standby)`
  return [note(what, 'Set synchronous_commit = on, also where the role or the database has its own.')]
}
