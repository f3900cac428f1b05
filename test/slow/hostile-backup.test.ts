/** A backup that somebody hostile made (contract 3, `db restore`): nothing of it runs, and nothing but leadpush's own is restored. */
import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { after, test } from 'node:test'
import { createGzip, gunzipSync, gzipSync } from 'node:zlib'
import { LeadpushError } from '../../src/base/errors.ts'
import { writeBackup } from '../../src/db/backup.ts'
import { openDatabase } from '../../src/db/open.ts'
import { restoreBackup } from '../../src/db/restore.ts'
import { createDatabase } from '../support/database.ts'

const folder = await mkdtemp(join(tmpdir(), 'leadpush-backup-'))
await chmod(folder, 0o711)
after(() => rm(folder, { recursive: true, force: true, maxRetries: 5 }))

const current = await (await createDatabase()).open()

/** The lines of a backup of this program. */
const lines = await (async () => {
  const gzip = createGzip()
  const [, text] = await Promise.all([writeBackup(current, gzip), buffer(gzip)])
  return gunzipSync(text).toString().split('\n').slice(0, -1)
})()
const [head = '', ...tables] = lines.slice(0, -1)
const end = JSON.parse(lines.at(-1) ?? '')

const write = (more: { head?: object; tables?: readonly string[]; end?: object }) =>
  Readable.from([
    gzipSync(
      [
        JSON.stringify({ ...JSON.parse(head), ...more.head }),
        ...(more.tables ?? tables),
        JSON.stringify({ ...end, ...more.end }),
        '',
      ].join('\n'),
    ),
  ])

// Any number of tables that are not leadpush's were remembered, and named in one message; what was no backup was told as a fault of the program.
test('a backup that somebody hostile made brings rows of leadpush’s tables alone, or nothing', async () => {
  const touched = join(folder, 'touched')
  const withColumns = (columns: unknown) => [JSON.stringify({ table: 'answers', columns }), ...tables.slice(1)]
  assert.match(tables[0] ?? '', /"table":"answers"/)
  for (const [more, code, message] of [
    [{ head: { version: {} } }, 'usage', /not a backup/],
    [{ head: { postgres: '\u001b[31m' } }, 'usage', /not a backup/],
    [{ head: { migrations: [1] } }, 'usage', /not a backup/],
    [{ tables: withColumns('answer') }, 'failed', /none of a backup; nothing was kept/],
    [
      { tables: withColumns([`answer") from program 'touch ${touched}' --`]) },
      'failed',
      /does not exist; nothing was kept/,
    ],
    [{ end: { sequences: null } }, 'failed', /none of a backup; nothing was kept/],
  ] as const) {
    await assert.rejects(restoreBackup(join(folder, 'refused'), write(more)), (error) => {
      assert.ok(error instanceof LeadpushError)
      assert.equal(error.code, code, error.message)
      assert.match(error.message, message)
      return true
    })
    assert.equal(existsSync(join(folder, 'refused', 'data')), false)
  }
  assert.equal(existsSync(touched), false)

  const names = [
    'pg_authid',
    'pg_proc',
    'x" as select; --',
    ...Array.from({ length: 30 }, (_, at) => `${at}`.repeat(99)),
  ]
  const strangers = names.flatMap((table) => [JSON.stringify({ table, columns: ['rolname'] }), 'evil', '\\.'])
  const all = { tables: end.tables + names.length, rows: end.rows + names.length }
  const home = join(folder, 'strangers')
  const restored = await restoreBackup(home, write({ tables: [...tables, ...strangers], end: all }))
  assert.deepEqual([restored.rows, restored.strangers.count], [end.rows, names.length])
  assert.deepEqual(
    restored.strangers.names,
    names.slice(0, 20).map((name) => name.slice(0, 63)),
  )
  const now = await openDatabase({ databaseUrl: undefined, home })
  try {
    const made = `select relname as name from pg_class where relnamespace = current_schema()::regnamespace
      union all select proname from pg_proc where pronamespace = current_schema()::regnamespace
      union all select rolname from pg_roles where rolname !~ '^pg_' and rolname <> current_user order by name`
    const [found, own] = await Promise.all([now, current].map(({ pool }) => pool.query(made)))
    assert.deepEqual(
      found?.rows.filter(({ name }) => !own?.rows.some((each) => each.name === name)),
      [],
    )
  } finally {
    await now.close()
  }
})
