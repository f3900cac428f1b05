/** The page of `leadpush report`, as the program writes it and as a browser shows it. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { before, test } from 'node:test'
import { sql } from 'kysely'
import { findAccessibilityProblems, findOverflow, withoutBrowser, withPage } from '../support/browser.ts'
import { createDatabase } from '../support/database.ts'
import { fillHistory } from '../support/history.ts'
import { callProgram, testHome } from '../support/program.ts'

const folder = mkdtempSync(join(testHome(), 'report-'))
const file = join(folder, 'report.html')
const hostile = '<script>alert(1)</script>@example.com'
const hostileError = '<img src=x onerror=alert(2)>'

const { url, open } = await createDatabase(undefined, { places: 'all' })
const env = { DATABASE_URL: url }

const report = (out: string, ...args: string[]) => callProgram(['report', '--out', out, ...args], { env })

before(async () => {
  const { db } = await open()
  await fillHistory(db, { leads: 600, users: 900, weeks: 5 })
  await sql`update users set email = ${hostile}, receiver_key = 'a-receiver-key-to-hide' where id = 12`.execute(db)
  await sql`
    update deliveries set status = 'failed', first_error = ${hostileError}, second_error = null, first_status = null
    where user_id = 12 and run_id = (select max(id) from runs)
  `.execute(db)
})

test('report writes one page that only its owner may read, and says the same as status', async () => {
  writeFileSync(file, 'an older page')
  chmodSync(file, 0o644)
  const { code, stderr, json } = await report(file, '--json')
  assert.equal(code, 0, stderr)
  const [line] = json
  assert.equal(json.length, 1)
  const { size, mode } = statSync(file)
  assert.deepEqual(
    { ...line, seconds: 0, findings: [] },
    { type: 'report', file, bytes: size, period: line.period, seconds: 0, findings: [] },
  )
  const [checked] = (await callProgram(['status', '--check', '--json'], { env })).json
  assert.ok(line.findings.length > 1)
  assert.deepEqual(line.findings, checked.findings)
  assert.equal(mode & 0o777, 0o600)
  assert.deepEqual(readdirSync(folder), ['report.html'])

  const page = readFileSync(file, 'utf8')
  const [status] = (await callProgram(['status', '--json'], { env })).json
  const figure = (name: string) => new RegExp(`<dt>${name}</dt><dd[^>]*>([^<]*)`).exec(page)?.[1]?.replace(',', '')
  for (const [name, value] of [
    ['Subscribed users', status.subscribed],
    ['Delivered', status.delivered],
    ['Failed', status.failed],
    ['Unknown', status.unknown],
    ['Owed', status.owed],
  ] as const) {
    assert.equal(figure(name), String(value))
  }
  assert.match(page, /<h1>\d things need attention\.<\/h1>/)
  assert.match(page, /run <code>leadpush push --failed --unknown<\/code>/)
})

test('data appear as text, and no secret gets onto the page', () => {
  const page = readFileSync(file, 'utf8')
  assert.ok(page.includes('&lt;script&gt;alert(1)&lt;/script&gt;@example.com'))
  assert.ok(page.includes('&lt;img src=x onerror=alert(2)&gt;'))
  assert.doesNotMatch(page, /<script|<img|a-receiver-key-to-hide|whsec_|hooks\.example\.com\/catch/)
  assert.match(page, /hooks\.example\.com, [0-9a-f-]{36}/)
})

test('a file that cannot be written is told before any work', async () => {
  mkdirSync(join(folder, 'a-folder'))
  writeFileSync(join(folder, 'a-file'), '')
  assert.equal(spawnSync('mkfifo', [join(folder, 'a-pipe')]).status, 0)
  const refused: [out: string, why: RegExp][] = [
    [join(folder, 'a-folder'), /it is a folder/],
    [`${folder}/`, /it is a folder/],
    [join(folder, 'missing', 'report.html'), /its folder does not exist/],
    [join(folder, 'a-file', 'report.html'), /its folder is a file/],
    [join(folder, 'a-pipe'), /it is not a file/],
  ]
  // a database that is not there would be exit code 3
  const away = { DATABASE_URL: 'postgresql://127.0.0.1:9/none' }
  const results = await Promise.all(refused.map(([out]) => callProgram(['report', '--out', out], { env: away })))
  for (const [at, [out, why]] of refused.entries()) {
    assert.equal(results[at]?.code, 2)
    assert.ok(results[at]?.stderr.includes(`--out ${out} cannot be written`), results[at]?.stderr)
    assert.match(results[at]?.stderr ?? '', why)
  }
  const both = await report('-', '--json')
  assert.equal(both.code, 2)
  assert.match(both.stderr, /--out - and --json exclude each other/)
  const gone = await callProgram(['report', '--out', join(folder, 'b.html')], { env: away })
  assert.equal(gone.code, 3)
  assert.deepEqual(readdirSync(folder).sort(), ['a-file', 'a-folder', 'a-pipe', 'report.html'])
})

test('- writes the page to standard output, and a database with nothing in it makes a friendly one', async () => {
  const { url } = await createDatabase()
  const { code, stdout, stderr } = await callProgram(['report', '--out', '-'], { env: { DATABASE_URL: url } })
  assert.equal(code, 0, stderr)
  assert.match(stdout, /^<!doctype html>[\s\S]*<\/html>\n$/)
  assert.match(stdout, /<h1>There is nothing to report yet\.<\/h1>/)
  assert.match(stdout, /<code>leadpush users import users\.json<\/code>/)
  assert.match(stdout, /<main>\s*<\/main>/)
})

const skip = withoutBrowser

for (const [width, colorScheme] of [
  [1_440, 'light'],
  [390, 'dark'],
] as const) {
  test(`at ${width} px, ${colorScheme}, the page reads without moving sideways, and everybody can use it`, {
    skip,
  }, async () => {
    await withPage(file, { width, colorScheme }, async (page) => {
      assert.equal(await findOverflow(page), 0)
      assert.deepEqual(await findAccessibilityProblems(page), [])
      assert.equal(await page.locator('h1').count(), 1)
      const widths = await page
        .locator('.plot svg:visible')
        .evaluateAll((drawings) => drawings.map((drawing) => drawing.getBoundingClientRect().width))
      assert.equal(widths.length, 2)
      for (const drawn of widths) assert.ok(drawn > 200 && drawn <= width, String(drawn))
      // the columns that say why and what to do once lay beyond the edge of the screen
      const sides = await page
        .locator('.table:visible :is(th, td)')
        .evaluateAll((cells) => cells.map((cell) => cell.getBoundingClientRect().right))
      assert.ok(sides.length > 30)
      for (const right of sides) assert.ok(right <= width, String(right))
      // folded away, the same figures are there as tables
      await page.locator('summary').first().click()
      assert.equal(await page.locator('details[open] tbody tr').count(), 6)
      assert.equal(await findOverflow(page), 0)
    })
  })
}

test('on paper the page is light, and says all the same', { skip }, async () => {
  await withPage(file, { colorScheme: 'dark' }, async (page) => {
    const rows = await page.locator('tr').count()
    await page.emulateMedia({ media: 'print', colorScheme: 'dark' })
    assert.equal(await page.evaluate('getComputedStyle(document.body).backgroundColor'), 'rgb(255, 255, 255)')
    assert.equal(await page.locator('tr').count(), rows)
    assert.equal(await findOverflow(page), 0)
  })
})
