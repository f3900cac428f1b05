/** Thin indexes are found by statistics, and rebuilt without blocking anybody (contract 3, `prune`). */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { findThinIndexes, rebuildThinIndexes } from '../../src/db/indexes.ts'
import { createDatabase, postgresVersions } from '../support/database.ts'
import { until } from '../support/until.ts'

// A year of daily feeds left the index by recency 13 % full, and no vacuum gives back pages with an entry in each.
for (const version of postgresVersions) {
  test(`a thin index is rebuilt, after a stop too, and no other (PostgreSQL ${version})`, async (t) => {
    const opened = await (await createDatabase(t, { version })).open()
    const query = async (statement: string) => (await opened.pool.query(statement)).rows
    // rising keys of which few are left, and text keys in random order
    await query(`
      insert into lead_seen (lead_id, seen_at) select n, now() from generate_series(1, 300000) n;
      insert into claims (scope, email) select 'weekly:2026-W01', n || '@example.com' from generate_series(1, 100000) n order by random();
      delete from lead_seen where lead_id % 10 <> 0`)
    await query('vacuum (analyze) lead_seen, claims')
    const names = async () => (await findThinIndexes(opened.db)).map(({ name }) => name)
    const [thin] = await findThinIndexes(opened.db)
    assert.deepEqual([await names(), thin?.name, thin?.isOurs], [['lead_seen_pkey'], 'lead_seen_pkey', true])

    await query(`
      create index claims_at_ccold1 on claims (claimed_at);
      update pg_index set indisvalid = false where indexrelid = 'claims_at_ccold1'::regclass`)
    const troubles: string[] = []
    const rebuild = async (stop: AbortSignal = new AbortController().signal) => {
      const onTrouble = (what: string, error: unknown) => void troubles.push(`${what}: ${error}`)
      return (await rebuildThinIndexes(opened, { stop, onIndex: () => {}, onTrouble })).map(({ name }) => name)
    }
    const invalid = () => query('select indexrelid::regclass::text as name from pg_index where not indisvalid')
    const underWay = async () => (await query('select from pg_stat_progress_create_index')).length
    const held = await opened.pool.connect()
    await held.query('begin; delete from lead_seen where lead_id = 10')
    const stop = new AbortController()
    const stopped = rebuild(stop.signal)
    await until('an index is being rebuilt', async () => (await underWay()) > 0)
    assert.deepEqual(await rebuild(), [], 'somebody is at it')
    stop.abort()
    assert.deepEqual([await stopped, troubles], [[], []])
    await held.query('rollback')
    held.release()
    await until('none is being rebuilt', async () => (await underWay()) === 0)

    const late = new AbortController()
    assert.deepEqual(
      [await rebuild(late.signal), troubles, await invalid(), await names()],
      [['lead_seen_pkey'], [], [], []],
    )
    // a stop after the work has nothing to cancel: it once held up the end of the program for 5 s
    const timers = () => process.getActiveResourcesInfo().filter((what) => what === 'Timeout').length
    const before = timers()
    late.abort()
    assert.equal(timers(), before)
    const [{ bytes }] = await query(`select pg_relation_size('lead_seen_pkey')::bigint as bytes`)
    const { bytes: thinBytes = 0, denseBytes = 0 } = thin ?? {}
    assert.ok(bytes * 5 < thinBytes && Math.abs(bytes / denseBytes - 1) < 0.1, `${thinBytes} ${bytes} ${denseBytes}`)
  })
}
