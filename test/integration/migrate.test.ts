/** The schema's files against what a database was made by. */
import assert from 'node:assert/strict'
import { appendFileSync, cpSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { packageRoot } from '../../src/base/package-root.ts'
import { migrate, schemaState } from '../../src/db/migrate.ts'
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
