/** The schema's files against what a database was made by. */
import assert from 'node:assert/strict'
import { appendFileSync, cpSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { packageRoot } from '../../src/base/package-root.ts'
import { migrate, migrateTo, schemaState } from '../../src/db/migrate.ts'
import { openDatabase } from '../../src/db/open.ts'
import { createDatabase } from '../support/database.ts'

function copyFiles(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'leadpush-sql-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  cpSync(join(packageRoot, 'sql'), folder, { recursive: true })
  return folder
}

test('a database that other files made is told in one sentence, with what to do', async (t) => {
  // it ended in `a fault of leadpush itself`, wherever a column was missing first
  const { db, pool } = await (await createDatabase(t)).open()
  const folder = copyFiles(t)
  assert.equal(await schemaState(db, folder), 'current')
  appendFileSync(join(folder, '000001_leads.sql'), '-- changed in place\n')
  assert.equal(await schemaState(db, folder), 'changed')
  const isTold = { code: 'usage', message: /^The database was made by an earlier state of this program, / }
  await assert.rejects(migrate(db, folder), isTold)
  // one from before there were checksums
  await pool.query('alter table schema_migrations drop column checksum')
  assert.equal(await schemaState(db), 'changed')
  await assert.rejects(migrate(db), isTold)
})

test('a migration without the file of its rows changes nothing, and says which file is missing', async (t) => {
  // the table of postal codes stayed empty, and nothing said so
  const { url } = await createDatabase(t, { empty: true })
  const { db, close } = await openDatabase({ databaseUrl: url, home: '' }, { schema: 'untouched' })
  t.after(close)
  const folder = copyFiles(t)
  rmSync(join(folder, '000002_postal_codes.tsv'))
  await assert.rejects(migrate(db, folder), {
    code: 'usage',
    message: /^The file 000002_postal_codes\.tsv of this program cannot be read: /,
  })
  assert.equal(await schemaState(db), 'behind')
})

test('each migration takes tables that have rows', async (t) => {
  const { db, pool } = await (await createDatabase(t, { empty: true })).open({ schema: 'untouched' })
  const { rows: all } = await (await (await createDatabase(t)).open()).pool.query(
    'select name from schema_migrations order by name',
  )
  const names: string[] = all.map(({ name }) => name)
  const fill: readonly [table: string, statement: string][] = [
    ['imports', "insert into imports (file, base_version_id) values ('a.csv', 0)"],
    [
      'leads',
      `insert into leads (id, href_sha256, postal_key, version_id, json_sha256, first_import_id, search) overriding system value
         values (1, sha256('href'), '78704', 1, sha256('json'), 1, to_tsvector('pool'));
       insert into lead_versions (id, lead_id, json) values (1, 1, '{"href":"https://listings.example/1"}');
       insert into lead_seen (lead_id, seen_at, filled, price_known) values (1, now(), 1, false)`,
    ],
    [
      'queries',
      `insert into users (email, receiver_key, subscribed) values ('user@example.com', 'key', true);
       insert into searches (meaning_sha256, kind, words, resolver) values (sha256('pool'), 'words', 'pool', 1);
       insert into queries select u.id, 0, 'text', 'pool', 0, 'pool0', '{}', s.id from users u, searches s`,
    ],
    [
      'deliveries',
      `insert into workers (host, process_id, lease_until) values ('here', 1, now());
       insert into claims (scope, email) values ('weekly:2026-W47', 'user@example.com');
       insert into deliveries (idempotency_key, run_id, user_id, period, kind, part, parts, queries, leads, bytes, query_list, recipe,
         attempts, under_way, status)
       select 'key', 1, id, '2026-W47', 'weekly', 1, 1, 1, 1, 1, '', '', 1, false, 'delivered' from users`,
    ],
  ]
  const filled: string[] = []
  for (const name of names) {
    await migrateTo(db, [name])
    for (const [table, statement] of fill) {
      const { rows } = await pool.query('select to_regclass($1) is not null as is_there', [table])
      if (filled.includes(table) || !rows[0].is_there) continue
      await pool.query(statement)
      filled.push(table)
    }
  }
  assert.deepEqual(filled, ['imports', 'leads', 'queries', 'deliveries'])
  assert.equal(await schemaState(db), 'current')
  const { rows } = await pool.query('select u.email, d.status, l.json from users u, deliveries d, lead_versions l')
  assert.deepEqual(rows, [
    { email: 'user@example.com', status: 'delivered', json: '{"href":"https://listings.example/1"}' },
  ])
})

test('a database with another encoding is refused, with what to do', async (t) => {
  const { url, open } = await createDatabase(t, { empty: true })
  const name = `${new URL(url).pathname.slice(1)}_latin`
  const { pool } = await open({ schema: 'untouched' })
  await pool.query(`create database ${name} encoding 'LATIN1' locale 'C' template template0`)
  try {
    const other = openDatabase({ databaseUrl: url.replace(/[^/]*$/, name), home: '' }, { schema: 'any' })
    await assert.rejects(other, { code: 'database', message: /encoding is LATIN1: leadpush needs UTF8/ })
  } finally {
    await pool.query(`drop database ${name} with (force)`)
  }
})
