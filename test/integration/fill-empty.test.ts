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
    create table "Streets" (town_id bigint references towns on delete cascade, next bigint unique references "Streets" (next));
    insert into towns values (1), (2)`)

  /** The foreign keys of a table: the id of each, which is another once it was made anew, and what it says. */
  async function findKeys(table: string): Promise<{ oid: string; says: string }[]> {
    const { rows } = await opened.pool.query(
      `select oid::text, concat_ws(' ', conname, convalidated, pg_get_constraintdef(oid)) as says
       from pg_constraint where contype = 'f' and conrelid = $1::regclass order by conname`,
      [table],
    )
    return rows
  }
  const fill = (towns: string, before = '') =>
    withTransaction(opened, async (connection) => {
      if (before) await connection.query(before)
      await fillEmpty(connection, '"Streets"', () => connection.query(`insert into "Streets" ${towns}`))
      return (await connection.query('show lock_timeout')).rows[0].lock_timeout
    })
  const sameKeys = (one: { oid: string }[], other: { oid: string }[]) =>
    one.every(({ oid }, at) => oid === other[at]?.oid)

  test(`PostgreSQL ${version}: an empty table is filled under foreign keys that are made anew, and say the same`, async () => {
    const before = await findKeys('"Streets"')
    assert.equal(before.length, 2)
    assert.equal(await fill('values (1, 1), (2, 1 + 1)', `set local lock_timeout = '7s'`), '7s')
    const after = await findKeys('"Streets"')
    assert.deepEqual(
      after.map(({ says }) => says),
      before.map(({ says }) => says),
    )
    assert.equal(sameKeys(after, before), false)
    await opened.pool.query('delete from towns where id = 1')
    assert.equal((await opened.pool.query('select from "Streets"')).rowCount, 1)
  })

  test(`PostgreSQL ${version}: a table with a row keeps its foreign keys`, async () => {
    const before = await findKeys('"Streets"')
    await fill('values (2, 3)')
    assert.ok(sameKeys(await findKeys('"Streets"'), before))
    await opened.pool.query('delete from "Streets"')
  })

  test(`PostgreSQL ${version}: rows that refer to nothing do not go in, and the keys stay as they were`, async () => {
    const before = await findKeys('"Streets"')
    await assert.rejects(fill('values (2, 1), (9, 2)'), /violates foreign key constraint "Streets_town_id_fkey"/)
    assert.equal((await opened.pool.query('select from "Streets"')).rowCount, 0)
    assert.ok(sameKeys(await findKeys('"Streets"'), before))
  })

  test(`PostgreSQL ${version}: while somebody uses one of the tables, or where they are another's, each row is checked`, async () => {
    const before = await findKeys('"Streets"')
    const reader = await opened.pool.connect()
    await reader.query('begin; select from towns')
    await fill('values (2, 1)')
    await assert.rejects(fill('values (9, 2)'), /violates foreign key constraint/)
    await reader.query('rollback')
    reader.release()
    assert.ok(sameKeys(await findKeys('"Streets"'), before))
    await opened.pool.query('delete from "Streets"')

    const role = `fills_${database.url.split('_').at(-1)}`
    await opened.pool.query(`create role ${role}; grant all on "Streets", towns to ${role}`)
    try {
      await fill('values (2, 1)', `set local role ${role}`)
      assert.ok(sameKeys(await findKeys('"Streets"'), before))
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
        (await pool.query(`select oid::text, convalidated from pg_constraint where conrelid = 'queries'::regclass and contype = 'f' order by conname`)).rows
      const before = await keys()
      await importUsers({ pool, ...rest }, [users(0, count)])
      const after = await keys()
      assert.deepEqual([before.length, after.length], [2, 2])
      assert.equal(sameKeys(after, before), !isAnew, String(count))
      assert.ok(after.every(({ convalidated }) => convalidated))
      await importUsers({ pool, ...rest }, [users(count, 10_000)])
      assert.ok(sameKeys(await keys(), after))
      const { rows } = await pool.query('select count(*) as users, (select count(*) from queries) as queries from users')
      assert.deepEqual(rows, [{ users: count + 10_000, queries: count + 10_000 }])
    }
  }) // biome-ignore format: pairs
}
