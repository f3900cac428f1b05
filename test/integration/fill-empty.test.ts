import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fillEmpty } from '../../src/db/fill-empty.ts'
import { withTransaction } from '../../src/db/transaction.ts'
import { importUsers } from '../../src/users/import.ts'
import { createDatabase, postgresVersions } from '../support/database.ts'
import { toLines, writeInput } from '../support/import-files.ts'

for (const version of postgresVersions) {
  const database = await createDatabase(undefined, { version })
  const opened = await database.open()
  await opened.pool.query(`
    create table towns (id bigint primary key);
    create table "Streets" (
      id bigint generated always as identity primary key, town_id bigint references towns on delete cascade,
      next bigint unique references "Streets" (next), name text default '', unique nulls not distinct (name, next) include (id)
    );
    create index "By name" on "Streets" (lower(name) desc, id) with (fillfactor = 70) where next > 1;
    create unique index on "Streets" (town_id, next);
    insert into towns values (1), (2)`)

  /** The foreign keys, other constraints and indexes of a table: the id of each, which is another once it was made anew, and what it says. */
  async function findParts(table: string): Promise<{ oid: string; says: string }[]> {
    const { rows } = await opened.pool.query(
      `select oid::text, concat_ws(' ', conname, convalidated, pg_get_constraintdef(oid)) as says
       from pg_constraint where contype in ('f', 'p', 'u') and conrelid = $1::regclass
       union all
       select indexrelid::text, concat_ws(' ', indisvalid, pg_get_indexdef(indexrelid)) from pg_index where indrelid = $1::regclass
       order by says`,
      [table],
    )
    return rows
  }
  const fill = (towns: string, before = '') =>
    withTransaction(opened, async (connection) => {
      if (before) await connection.query(before)
      await fillEmpty(connection, ['"Streets"'], () =>
        connection.query(`insert into "Streets" (town_id, next) ${towns}`),
      )
      return (await connection.query('show lock_timeout')).rows[0].lock_timeout
    })
  const areSame = (one: { oid: string }[], other: { oid: string }[]) =>
    one.every(({ oid }, at) => oid === other[at]?.oid)

  test(`PostgreSQL ${version}: an empty table is filled without its foreign keys and indexes, which are then made anew and say the same`, async () => {
    const before = await findParts('"Streets"')
    assert.equal(before.length, 10)
    assert.equal(await fill('values (1, 1), (2, 1 + 1)', `set local lock_timeout = '7s'`), '7s')
    const after = await findParts('"Streets"')
    assert.deepEqual(
      after.map(({ says }) => says),
      before.map(({ says }) => says),
    )
    const kept = before.filter(({ oid }, at) => oid === after[at]?.oid).map(({ says }) => says)
    assert.equal(kept.length, 2, 'the constraint and the index that a foreign key needs')
    assert.ok(kept.every((says) => says.includes('Streets_next_key')))
    await opened.pool.query('delete from towns where id = 1')
    assert.equal((await opened.pool.query('select from "Streets"')).rowCount, 1)
  })

  test(`PostgreSQL ${version}: a table with a row keeps its foreign keys and indexes`, async () => {
    const before = await findParts('"Streets"')
    await fill('values (2, 3)')
    assert.ok(areSame(await findParts('"Streets"'), before))
    await opened.pool.query('delete from "Streets"')
  })

  for (const [rows, expected] of [
    ['values (2, 1), (9, 2)', /violates foreign key constraint "Streets_town_id_fkey"/],
    ['values (2, null), (2, null)', /could not create unique index "Streets_name_next_id_key"/],
  ] as const) {
    test(`PostgreSQL ${version}: of the rows ${rows} none goes in, and what they break stays as it was`, async () => {
      const before = await findParts('"Streets"')
      await assert.rejects(fill(rows), expected)
      assert.equal((await opened.pool.query('select from "Streets"')).rowCount, 0)
      assert.ok(areSame(await findParts('"Streets"'), before))
    })
  }

  test(`PostgreSQL ${version}: while somebody uses one of the tables, or where they are another's, each row is checked`, async () => {
    const before = await findParts('"Streets"')
    const reader = await opened.pool.connect()
    await reader.query('begin; select from towns')
    await fill('values (2, 1)')
    await assert.rejects(fill('values (9, 2)'), /violates foreign key constraint/)
    await reader.query('rollback')
    reader.release()
    assert.ok(areSame(await findParts('"Streets"'), before))
    await opened.pool.query('delete from "Streets"')

    const role = `fills_${database.url.split('_').at(-1)}`
    await opened.pool.query(`create role ${role}; grant all on "Streets", towns to ${role}`)
    try {
      await fill('values (2, 1)', `set local role ${role}`)
      assert.ok(areSame(await findParts('"Streets"'), before))
    } finally {
      await opened.pool.query(`drop owned by ${role}; drop role ${role}`)
    }
  })

  test(`PostgreSQL ${version}: the first users of a database lock others out from 10,000 on, later ones never`, async (t) => {
    const users = (from: number, count: number) =>
      writeInput(
        `users-${from}-${count}.ndjson`,
        toLines(
          Array.from({ length: count }, (_, at) => ({
            email: `user-${from + at}@example.com`,
            receiverApiKey: 'key',
            queries: [{ type: 'zipcode', value: '78704', radius: at % 100 }],
          })),
        ),
      )
    for (const [count, isAnew] of [[9_999, false], [10_000, true]] as const) {
      const own = await createDatabase(t, { version })
      const { pool, ...rest } = await own.open()
      const keys = async () =>
        (await pool.query(`select oid::text, convalidated from pg_constraint where conrelid = 'queries'::regclass and contype in ('f', 'p', 'u') order by conname`)).rows
      const before = await keys()
      await importUsers({ pool, ...rest }, [users(0, count)])
      const after = await keys()
      assert.deepEqual([before.length, after.length], [4, 4])
      assert.equal(areSame(after, before), !isAnew, String(count))
      assert.ok(after.every(({ convalidated }) => convalidated))
      await importUsers({ pool, ...rest }, [users(count, 10_000)])
      assert.ok(areSame(await keys(), after))
      const { rows } = await pool.query('select count(*) as users, (select count(*) from queries) as queries from users')
      assert.deepEqual(rows, [{ users: count + 10_000, queries: count + 10_000 }])
    }
  }) // biome-ignore format: pairs
}
