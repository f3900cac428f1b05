/** The lines of `crontab.example` and the units of `examples/systemd`: the same week, and each line of the former runs as it stands. */
import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { chmodSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { packageRoot } from '../../src/base/package-root.ts'
import { openDatabase } from '../../src/db/open.ts'
import { cleanEnvironment, testHome } from '../support/program.ts'
import { startTestReceiver } from '../support/receiver.ts'
import { findProgram } from '../support/scripts.ts'

const folder = join(testHome(), 'week')
const bin = join(folder, 'bin')
const inFolder = (text: string) =>
  text
    .replaceAll('/etc/leadpush', folder)
    .replaceAll('/var/spool/leadpush', folder)
    .replaceAll('/var/backups/leadpush', folder)

interface Entry {
  /** Month and day, or the weekday, with the time. */
  when: string
  command: string
}

/** The lines of the crontab, and its settings. */
function readCrontab(): { entries: Entry[]; settings: Record<string, string> } {
  const entries: Entry[] = []
  const settings: Record<string, string> = {}
  for (const line of readFileSync(join(packageRoot, 'crontab.example'), 'utf8').split('\n')) {
    const [, name, value] = /^([A-Z_]+)=(.*)$/.exec(line) ?? []
    const [, when, command] = /^((?:[\d*/-]+ ){5}) *(\S.*)$/.exec(line.replace(/ +(?=[\d*])/g, ' ')) ?? []
    if (name !== undefined && value !== undefined) settings[name] = value
    if (when !== undefined && command !== undefined) entries.push({ when: when.trim(), command })
  }
  return { entries, settings }
}

const ofUnit = (unit: string, name: string) =>
  [
    ...readFileSync(join(packageRoot, 'examples/systemd', unit), 'utf8').matchAll(new RegExp(`^${name}=(.*)$`, 'gm')),
  ].map(([, value]) => value ?? '')

/** The same time as a crontab writes it. */
function asCron(calendar: string): string {
  const [, days = '', hour = '*', minute = '0'] =
    /^(?:(Mon|\*-\*-\*|\*-\*-01) )?(\*|\d\d(?:\.\.\d\d)?):([\d/]+)$/.exec(calendar) ?? []
  const [monthDay, weekday] = days === 'Mon' ? ['*', '1'] : days === '*-*-01' ? ['1', '*'] : ['*', '*']
  const plain = (text: string) => text.replace(/\b0(?=\d)/g, '').replace('..', '-')
  return `${minute.startsWith('0/') ? `*/${minute.slice(2)}` : plain(minute)} ${plain(hour)} ${monthDay} * ${weekday}`
}

/** Words without what only one of both has: redirections, and where a backup lies. */
const bareCommand = (text: string) =>
  text
    .replace(/^out="\$\((.*) 2>&1\)" \|\| echo "\$out"$/, '$1')
    .replace(/ > \/dev\/null$/, '')
    .replace('/usr/bin/', '')
    .replace(/\S*\/leadpush\.gz$/, 'leadpush.gz')

const units = readdirSync(join(packageRoot, 'examples/systemd'))
  .filter((name) => name.endsWith('.timer'))
  .map((name) => ({
    when: asCron(ofUnit(name, 'OnCalendar')[0] ?? ''),
    command: ofUnit(name.replace('.timer', '.service'), 'ExecStart')[0] ?? '',
  }))

before(() => {
  mkdirSync(bin, { recursive: true })
  writeFileSync(join(bin, 'leadpush'), `#!/bin/sh\nexec '${process.execPath}' '${findProgram()}' "$@"\n`)
  chmodSync(join(bin, 'leadpush'), 0o755)
  writeFileSync(join(folder, 'mls.map'), 'href=url\npostalCode=zip\n')
  writeFileSync(join(folder, 'mls.csv'), 'url,zip\nhttps://listings.example/1,78704\n')
  execFileSync('gzip', ['-k', join(folder, 'mls.csv')])
})

test('the units have the week of the crontab', () => {
  // systemd pushed once at 6:00, and imported without source and map
  const told = (entries: readonly Entry[]) =>
    entries.map(({ when, command }) => `${when}  ${bareCommand(command)}`).sort()
  const { entries, settings } = readCrontab()
  assert.ok(entries.length >= 7)
  assert.deepEqual(told(units), told(entries))
  const common = 'leadpush-.service.d/common.conf'
  assert.ok(ofUnit(common, 'Environment').includes(`LEADPUSH_FEED_MAX_AGE=${settings.LEADPUSH_FEED_MAX_AGE}`))
  // a file that is not there failed every unit at once
  assert.deepEqual(ofUnit(common, 'LoadCredential'), [])
  assert.equal(settings.DATABASE_URL_FILE, undefined)
})

test('each line of the crontab runs on the embedded database', async () => {
  const { entries, settings } = readCrontab()
  const receiver = await startTestReceiver()
  after(() => receiver.close())
  const home = join(folder, 'home')
  // its server runs on from line to line
  const opened = await openDatabase({ databaseUrl: undefined, home }, { create: true })
  const own = { LEADPUSH_HOME: home, LEADPUSH_RECEIVER_URL: receiver.url, PATH: `${bin}:${process.env.PATH}` }
  const env = cleanEnvironment({ ...settings, ...own })
  for (const { command: line } of entries) {
    const { stdout, stderr, status } = spawnSync('sh', ['-c', inFolder(line)], { cwd: folder, env, encoding: 'utf8' })
    // nobody is subscribed, so nothing went out; what a line of cron prints comes as a mail
    const said = `${line}\n${stdout}${stderr}`
    if (!line.includes('status --check')) assert.equal(status, 0, said)
    assert.doesNotMatch(said, /\nerror: /)
  }
  await opened.close()
})
