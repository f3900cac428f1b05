/** Checks whether PostgreSQL keeps the tables in order: vacuum, transaction age, indexes. */
import { findUpkeep, type Upkeep } from '../../db/survey.ts'
import { type Found, note } from '../finding.ts'
import { type Check, factsOf, openedOf } from './check.ts'

const frozenAgeMax = 1_000_000_000

export function judgeUpkeep(
  { frozenAge, withoutAutovacuum, bloated, invalidIndexes }: Upkeep,
  autovacuum: boolean,
): Found[] {
  const found: Found[] = []
  if (!autovacuum) {
    found.push(note('autovacuum is off: tables grow, and plans go by old figures', 'Set autovacuum = on.'))
  }
  if (withoutAutovacuum.length > 0) {
    const toDo = `For each: alter table ${withoutAutovacuum[0]} reset (autovacuum_enabled).`
    found.push(note(`autovacuum is off for ${withoutAutovacuum.join(', ')}`, toDo))
  }
  if (bloated.length > 0) {
    const what = `Many rows of ${bloated.join(', ')} are dead: autovacuum does not keep up, or an old transaction is open`
    found.push(note(what, `Look for it in pg_stat_activity, then: vacuum (analyze) ${bloated.join(', ')}.`))
  }
  if (frozenAge > frozenAgeMax) {
    const what = `The oldest transaction is ${(frozenAge / 1e9).toFixed(1)} thousand million back: at 2.1 the database stops`
    const toDo = 'Look for what holds vacuum up (pg_stat_activity, replication slots), then run vacuumdb.'
    found.push(note(what, toDo))
  }
  if (invalidIndexes.length > 0) {
    const toDo = `For each: reindex index concurrently ${invalidIndexes[0]}; \`leadpush prune\` drops one that ends in _ccnew.`
    found.push(note(`Indexes that are not valid: ${invalidIndexes.join(', ')}`, toDo))
  }
  return found
}

export const upkeepCheck: Check = {
  code: 'upkeep',
  title: 'Upkeep',
  needs: 'tables',
  async run(context) {
    const { db } = openedOf(context)
    return judgeUpkeep(await findUpkeep(db), factsOf(context).autovacuum)
  },
}
