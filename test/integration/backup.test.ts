/** Backups by older versions: of PostgreSQL, and of the schema. */
import assert from 'node:assert/strict'
import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { createGzip } from 'node:zlib'
import { writeBackup } from '../../src/db/backup.ts'
import { migrateTo } from '../../src/db/migrate.ts'
import { openDatabase } from '../../src/db/open.ts'
import { restoreBackup } from '../../src/db/restore.ts'
import { createDatabase, postgresVersion } from '../support/database.ts'

const folder = await mkdtemp(join(tmpdir(), 'leadpush-backup-'))
await chmod(folder, 0o711)
after(() => rm(folder, { recursive: true, force: true, maxRetries: 5 }))

const current = await (await createDatabase()).open()
const { rows } = await current.pool.query<{ name: string }>('select name from schema_migrations order by name')
const migrations = rows.map(({ name }) => name)

const version = postgresVersion

test(`what PostgreSQL ${version} had by an older schema is restored, and migrated by the next command`, async (t) => {
  const then = await (await createDatabase(t, { empty: true })).open({ schema: 'untouched' })
  await migrateTo(then.db, migrations.slice(0, -1))
  await then.pool.query(`insert into users (email, receiver_key, subscribed) values ('user@example.com', 'key', true)`)
  const gzip = createGzip()
  const [{ rows: count }, restored] = await Promise.all([
    writeBackup(then, gzip),
    restoreBackup(join(folder, `${version}`), gzip),
  ])
  assert.deepEqual([restored.rows, restored.postgres], [count, version])

  const now = await openDatabase({ databaseUrl: undefined, home: join(folder, `${version}`) })
  try {
    assert.deepEqual(now.migrated, migrations.slice(-1))
    const found = await now.pool.query('select email, current_setting($1) as version from users', ['server_version'])
    assert.deepEqual(
      found.rows.map(({ email }) => email),
      ['user@example.com'],
    )
    assert.match(found.rows[0].version, /^18/)
  } finally {
    await now.close()
  }
})
