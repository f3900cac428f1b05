/**
 * Takes the pictures of the report and of the preview page that README and the pages show: `npm run pictures`. The listings and the
 * user of the preview are the demo's; the report shows made-up weeks, the same each time but for their dates. With `PICTURES=FOLDER`
 * it writes both pages at 1,280 and 390 pixels, light and dark, to look at.
 */
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { test } from 'node:test'
import { sql } from 'kysely'
import { packageRoot } from '../../src/base/package-root.ts'
import { importLeads } from '../../src/leads/import.ts'
import { importUsers } from '../../src/users/import.ts'
import { withPage } from '../support/browser.ts'
import { createDatabase } from '../support/database.ts'
import { fillHistory } from '../support/history.ts'
import { runProgram, testHome } from '../support/program.ts'

type Scheme = 'light' | 'dark'

async function takePicture(
  page: string,
  path: string,
  width: number,
  colorScheme: Scheme,
  height?: number,
): Promise<void> {
  await withPage(page, { width, height: height ?? 900, colorScheme }, (opened) =>
    opened.screenshot({ path, fullPage: height === undefined, scale: 'css' }),
  )
}

async function writeReport(): Promise<string> {
  const { url, open } = await createDatabase(undefined, { places: 'all' })
  const { db } = await open()
  await fillHistory(db, { leads: 6_000, users: 900, weeks: 13 })
  // listings where users look for them, a feed that comes each night, and no platform in trouble
  await sql`insert into imports (file) values ('listings.csv')`.execute(db)
  await sql`delete from hooks`.execute(db)
  await sql`
    update leads l set postal_key = s.places[1]
    from (select places, row_number() over (order by id) as at, count(*) over () as of_all from searches) s
    where s.at = 1 + l.id % s.of_all
  `.execute(db)
  const file = join(testHome(), 'report.html')
  await runProgram(['report', '--out', file], { env: { DATABASE_URL: url } })
  return file
}

async function writePreview(): Promise<string> {
  const { url, open } = await createDatabase(undefined, { places: 'all' })
  const opened = await open()
  for (const [importFiles, name] of [
    [importLeads, 'leads.csv'],
    [importUsers, 'users.json'],
  ] as const) {
    await importFiles(opened, [join(packageRoot, 'demo', name)], { stdin: Readable.from([]) })
  }
  const file = join(testHome(), 'preview.html')
  await runProgram(['preview', '--user', 'austin@example.com', '--out', file], { env: { DATABASE_URL: url } })
  return file
}

test('pictures', async () => {
  const pages = { report: await writeReport(), preview: await writePreview() }
  const folder = process.env.PICTURES
  if (folder === undefined) {
    await takePicture(pages.report, join(packageRoot, 'docs/pictures/report.png'), 1_100, 'light', 1_000)
    return
  }
  mkdirSync(folder, { recursive: true })
  for (const [name, page] of Object.entries(pages))
    for (const width of [1_280, 390])
      for (const scheme of ['light', 'dark'] as const)
        await takePicture(page, join(folder, `${name}-${width}-${scheme}.png`), width, scheme)
})
