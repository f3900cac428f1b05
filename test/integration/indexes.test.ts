/** The indexes of tables that lost many rows are rebuilt without blocking anybody (contract 3, `prune`). */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { indexRebuildMsMax } from '../../src/base/limits.ts'
import { findIndexes, findRows, findThinned, rebuildIndexes } from '../../src/db/indexes.ts'
import { countDeleted } from '../../src/upkeep/prune/prune.ts'
import { createDatabase } from '../support/database.ts'
import { until } from '../support/until.ts'

test('a table is thinned where at least 100,000 rows and half of all were deleted', () => {
  for (const [rows, deleted, isThinned] of [
    [200_000, 100_000, true],
    [200_001, 100_000, false],
    [150_000, 99_999, false],
    [0, 100_000, true],
  ] as const)
    assert.deepEqual(
      findThinned({ claims: rows }, { claims: deleted }),
      isThinned ? ['claims'] : [],
      `${rows} ${deleted}`,
    )
})

test('a version that went counts for the indexes of listings, in which it had its place', () => {
  const none = { runs: 0, workers: 0, imports: 0, searches: 0, triggers: 0, receiverDeliveries: 0, events: 1 }
  assert.deepEqual(countDeleted({ ...none, deliveries: 2, claims: 3, leads: 4, versions: 5 }), {
    deliveries: 2, claims: 3, leads: 5, lead_seen: 4, lead_sources: 4, lead_versions: 5, lead_events: 1,
  }) // biome-ignore format: a list
})

// A year of daily feeds left the index by recency 13 % full, and no vacuum gives back pages with an entry in each.
test('the indexes of a thinned table are rebuilt, after a stop too, and no others', async (t) => {
  const opened = await (await createDatabase(t)).open()
  const query = async (statement: string) => (await opened.pool.query(statement)).rows
  await query('insert into lead_seen (lead_id, seen_at) select n, now() from generate_series(1, 300000) n')
  await query('analyze lead_seen')
  const rows = await findRows(opened.db)
  await query('delete from lead_seen where lead_id % 10 <> 0')
  await query('vacuum lead_seen')
  const tables = findThinned(rows, { lead_seen: 270_000, claims: 0 })
  assert.deepEqual(await findIndexes(opened.db, tables), ['lead_seen_pkey'])
  const size = async () => (await query(`select pg_relation_size('lead_seen_pkey')::bigint as bytes`))[0].bytes
  const thinBytes = await size()

  await query(`
    create index claims_at_ccold1 on claims (claimed_at);
    update pg_index set indisvalid = false where indexrelid = 'claims_at_ccold1'::regclass`)
  const troubles: string[] = []
  const rebuild = async (stop: AbortSignal = new AbortController().signal) => {
    const onTrouble = (what: string, error: unknown) => void troubles.push(`${what}: ${error}`)
    return await rebuildIndexes(opened, tables, { stop, onIndex: () => {}, onTrouble })
  }
  const invalid = () => query('select indexrelid::regclass::text as name from pg_index where not indisvalid')
  const underWay = async () =>
    (await query('select from pg_stat_progress_create_index where datname = current_database()')).length
  const held = await opened.pool.connect()
  await held.query('begin; delete from lead_seen where lead_id = 10')
  const stop = new AbortController()
  const stopped = rebuild(stop.signal)
  await until('an index is being rebuilt', async () => (await underWay()) > 0)
  assert.deepEqual(await rebuild(), [], 'somebody is at it')
  stop.abort()
  assert.deepEqual([await stopped, troubles], [[], []])
  await until('none is being rebuilt', async () => (await underWay()) === 0)
  // a transaction that never ends holds it up for half an hour
  const timeIsUp = new AbortController()
  const timer = t.mock.method(AbortSignal, 'timeout', () => timeIsUp.signal)
  const held30Minutes = rebuild()
  const dropping =
    "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' and query like 'drop index concurrently%'"
  await until('it waits', async () => (await query(dropping)).length > 0)
  timeIsUp.abort(new Error('the time is up'))
  assert.deepEqual([await held30Minutes, timer.mock.calls[0]?.arguments], [[], [indexRebuildMsMax]])
  timer.mock.restore()
  assert.match(troubles.splice(0).join(), /^dropping lead_seen_pkey_ccnew: /)
  await held.query('rollback')
  held.release()
  await until('none is being rebuilt', async () => (await underWay()) === 0)

  const late = new AbortController()
  assert.deepEqual([await rebuild(late.signal), troubles, await invalid()], [['lead_seen_pkey'], [], []])
  // a stop after the work has nothing to cancel: it once held up the end of the program for 5 s
  const timers = () => process.getActiveResourcesInfo().filter((what) => what === 'Timeout').length
  const before = timers()
  late.abort()
  assert.equal(timers(), before)
  const bytes = await size()
  assert.ok(bytes * 5 < thinBytes, `${thinBytes} ${bytes}`)
})
