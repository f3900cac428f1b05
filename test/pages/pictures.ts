/**
 * Takes the picture of the report that README shows, of made-up weeks: `npm run pictures`. With `PICTURES=FOLDER` it writes that report, and
 * what the demo's listings and users come to (imported, pushed once to a strict receiver), at 1,280 and 390 pixels, light and dark, to look
 * at.
 */
import assert from 'node:assert/strict'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { packageRoot } from '../../src/base/package-root.ts'
import { startReceiver } from '../../src/receiver-kit/receiver/receiver.ts'
import { withPage } from '../support/browser.ts'
import { createDatabase } from '../support/database.ts'
import { fillHistory } from '../support/history.ts'
import { callProgram, testHome } from '../support/program.ts'

type Scheme = 'light' | 'dark'

const takePicture = (page: string, path: string, width: number, colorScheme: Scheme): Promise<void> =>
  withPage(page, { width, height: 900, colorScheme }, async (opened) => {
    await opened.screenshot({ path, fullPage: true, scale: 'css' })
  })

/** A report of many weeks, with trouble in them: the same each time but for their dates. */
async function writeWeeks(): Promise<string> {
  const { url, open } = await createDatabase(undefined, { places: 'all' })
  const { db } = await open()
  await fillHistory(db, { leads: 6_000, users: 900, weeks: 13 })
  const file = join(testHome(), 'weeks.html')
  await callProgram(['report', '--out', file], { env: { DATABASE_URL: url } })
  return file
}

/** What the demo's data come to, by the commands that an operator would give. */
async function writeDemo(): Promise<string> {
  const { url, open } = await createDatabase(undefined, { places: 'all' })
  const receiver = await startReceiver({ db: await open(), host: '127.0.0.1', port: 0 })
  const env = { DATABASE_URL: url, LEADPUSH_RECEIVER_URL: receiver.url }
  const report = join(testHome(), 'report.html')
  const demo = (name: string) => join(packageRoot, 'demo', name)
  for (const args of [
    ['leads', 'import', demo('leads.csv')],
    ['users', 'import', demo('users.json')],
    ['push', '--all'],
    ['report', '--out', report],
  ]) {
    const { code, stderr } = await callProgram(args, { env })
    assert.equal(code, 0, `${args.join(' ')}: ${stderr}`)
  }
  await receiver.close()
  return report
}

test('pictures', async () => {
  const weeks = await writeWeeks()
  const folder = process.env.PICTURES
  if (folder === undefined) {
    for (const [colorScheme, name] of [
      ['light', 'report'],
      ['dark', 'report-dark'],
    ] as const)
      await withPage(weeks, { width: 1_100, height: 900, colorScheme }, async (opened) => {
        const path = join(packageRoot, `docs/pictures/${name}.png`)
        await opened.locator('section', { hasText: 'Week by week' }).screenshot({ path, scale: 'css' })
      })
    return
  }
  mkdirSync(folder, { recursive: true })
  for (const [name, page] of Object.entries({ report: await writeDemo(), weeks }))
    for (const width of [1_280, 390])
      for (const scheme of ['light', 'dark'] as const)
        await takePicture(page, join(folder, `${name}-${width}-${scheme}.png`), width, scheme)
})
