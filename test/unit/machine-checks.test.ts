/** What `validate` makes of figures that no test can bring about: both sides of every limit; and crontabs as cron reads them. */
import assert from 'node:assert/strict'
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import type { ServerFacts } from '../../src/db/survey.ts'
import { findProxy } from '../../src/http/reach.ts'
import { type Found, type Level, sentenceOf } from '../../src/inspect/finding.ts'
import { judgeDates } from '../../src/inspect/machine/client-certificate.ts'
import { judgeClock } from '../../src/inspect/machine/clock.ts'
import { judgeConnections, judgeDurability, judgeWriting } from '../../src/inspect/machine/database.ts'
import { judgeDisks } from '../../src/inspect/machine/disk.ts'
import { judgeNode } from '../../src/inspect/machine/node.ts'
import { checkSchedule, findJobs, findJobTrouble } from '../../src/inspect/machine/schedule.ts'
import { judgeStandbys } from '../../src/inspect/machine/standbys.ts'
import { certificate } from '../support/sockets.ts'

const node = (version: string, day: string) => judgeNode(version, new Date(`${day}T12:00:00Z`))
const disk = (freeBytes: number, bytes = 100e9) => judgeDisks([{ what: 'temporary files', freeBytes, bytes }])
const clock = (aheadMs: number, aheadErrorMs = 0) => judgeClock({ aheadMs, aheadErrorMs })
const free = (freeConnections: number, pooled = false) =>
  judgeConnections({ freeConnections, connectionsMax: 97, pooled } as ServerFacts)
const durable = { fsync: true, fullPageWrites: true, synchronousCommit: 'on' }
const cluster = { standby: false, synchronousNames: 'b', synchronousCommit: 'on', standbys: ['b'] }
const standbys = (facts: Partial<Parameters<typeof judgeStandbys>[0]>) =>
  judgeStandbys({ ...cluster, synchronousStandbys: 1, ...facts })

const pem = (file: string) => readFileSync(certificate(file), 'utf8')
const dates = (pems: string, day: string) => judgeDates(pems, new Date(`${day}T00:00:00Z`))
const chain = pem('client.pem') + pem('client-expired.pem')

/** What is judged, and the one finding that comes of it, if any. */
const cases: [what: string, found: Found[], level?: Level, words?: RegExp][] = [
  ['the oldest Node.js, on its last day', node('20.19.0', '2026-04-30')],
  ['the same a day later', node('20.19.0', '2026-05-01'), 'note', /no security fixes since 2026-04-30.*newest long-term/],
  ['one that is too old', node('20.18.3', '2025-01-01'), 'problem', /needs 20\.19/],
  ['22 on its last day', node('22.1.0', '2027-04-30')],
  ['22 after it', node('22.1.0', '2027-05-01'), 'note', /since 2027-04-30/],
  ['24 after its last day', node('24.1.0', '2028-05-01'), 'note', /since 2028-04-30/],
  ['an odd version', node('23.11.0', '2026-01-01'), 'note', /not a long-term version/],
  ['one that is newer than this program', node('26.0.0', '2026-06-01')],
  ['a client certificate on its first day', dates(pem('client.pem'), '2020-01-01')],
  ['the day before', dates(pem('client.pem'), '2019-12-31'), 'problem', /not valid before 2020-01-01.*clock/],
  ['30 days before its end', dates(pem('client-expired.pem'), '2020-03-02')],
  ['less than 30 days', dates(pem('client-expired.pem'), '2020-03-03'), 'note', /ends in 29 days, on 2020-04-01.*new one/],
  ['its last day', dates(pem('client-expired.pem'), '2020-03-31'), 'note', /ends in 1 day, on/],
  ['its end', dates(pem('client-expired.pem'), '2020-04-01'), 'problem', /expired on 2020-04-01.*LEADPUSH_CLIENT_CERT/],
  ['a chain of which another one is over', dates(chain, '2021-01-01'), 'problem', /Certificate 2 of the chain expired/],
  ['a disk with room', disk(10e9)],
  ['less than a tenth of a disk', disk(9.9e9), 'note', /Only 9\.9 GB.*Make room/],
  ['1 GB of a small disk', disk(1e9, 5e9)],
  ['less than 1 GB', disk(999e6, 5e9), 'note', /Only 999\.0 MB/],
  ['100 MB', disk(100e6, 5e9), 'note', /100\.0 MB/],
  ['less than 100 MB', disk(99e6, 5e9), 'problem', /99\.0 MB/],
  ['a clock that is right by a second', clock(1_000)],
  ['a clock that is behind', clock(1_001), 'note', /clock is 1\.001 s behind.*time synchronisation/],
  ['a clock that is ahead, as far as a slow answer tells', clock(-1_600, 600)],
  ['a clock that is ahead', clock(-300_000), 'note', /300 s ahead of/],
  ['a clock that is no clock', clock(-300_001), 'problem', /300 s ahead of.*certificates/],
  ['connections for a push', free(8)],
  ['too few of them', free(7), 'note', /Only 7 of 97.*PgBouncer/],
  ['none left', free(0), 'problem', /Only 0 of 97/],
  ['none left, which is the affair of the pooler', free(0, true)],
  ['a standby', judgeWriting({ standby: true, readOnly: false, statementTimeout: '0' }), 'problem', /standby.*primary/],
  ['a time limit', judgeWriting({ standby: false, readOnly: false, statementTimeout: '30s' }), 'note', /is 30s: .*imports.*timeout = 0/],
  ['a server that forgets nothing', judgeDurability(durable)],
  ['a server without fsync', judgeDurability({ ...durable, fsync: false }), 'note', /fsync is off.*send them again.*fsync = on/],
  ['a server without whole pages', judgeDurability({ ...durable, fullPageWrites: false }), 'note', /full_page_writes is off/],
  ['a server that confirms early', judgeDurability({ ...durable, synchronousCommit: 'off' }), 'note', /synchronous_commit is off/],
  ['a server without standbys', standbys({ synchronousNames: '', standbys: [], synchronousStandbys: 0 })],
  ['an asynchronous standby', standbys({ synchronousNames: '', synchronousStandbys: 0 }), 'note', /1 standby attached, none of them synchronous.*more than twice.*synchronous_mode/],
  ['the same, as every role sees it', standbys({ synchronousNames: '', synchronousStandbys: null }), 'note', /none of them synchronous/],
  ['a synchronous standby', standbys({})],
  ['a synchronous standby that is away', standbys({ standbys: [], synchronousStandbys: 0 }), 'problem', /'b', and no such standby is attached: commits wait.*Start/],
  ['another one in its place', standbys({ standbys: ['c'], synchronousStandbys: 0 }), 'problem', /no such standby/],
  ['the same, without the right to see its state', standbys({ standbys: ['c'], synchronousStandbys: null }), 'problem', /no such standby/],
  ['the right one, likewise', standbys({ standbys: ['B'], synchronousStandbys: null })],
  ['any one, likewise', standbys({ synchronousNames: 'ANY 1 (*)', standbys: ['c'], synchronousStandbys: null })],
  ['a name in quotes, likewise', standbys({ synchronousNames: 'FIRST 1 ("b", c)', synchronousStandbys: null })],
  ['one of two', standbys({ synchronousNames: 'ANY 2 (b, c)' }), 'problem', /only 1 of 2 are attached/],
  ['two of two', standbys({ synchronousNames: '2 (b, c)', standbys: ['b', 'c'], synchronousStandbys: 2 })],
  ['imports that wait for no standby', standbys({ synchronousCommit: 'local' }), 'note', /synchronous_commit is local.*last imports/],
  ['a standby itself', standbys({ standby: true })],
] // biome-ignore format: a table

test('each figure is judged on both sides of its limit, with what to do', () => {
  for (const [what, found, level, words] of cases) {
    assert.deepEqual(
      found.map((each) => each.level),
      level === undefined ? [] : [level],
      what,
    )
    if (words !== undefined) assert.match(found.map(sentenceOf).join(' '), words, what)
  }
})

test('a proxy is found as requests find it', () => {
  const proxies = { http: 'http://plain:1', https: 'http://secure:2' }
  for (const [url, except, expected] of [
    ['http://a.example/', '', proxies.http],
    ['https://a.example/', '', proxies.https],
    ['https://a.example/', '*', undefined],
    ['https://a.example/', 'b.example, a.example', undefined],
    ['https://x.a.example/', '.a.example', undefined],
    ['https://x.a.example/', '*.a.example', undefined],
    ['https://xa.example/', 'a.example', proxies.https],
    ['https://a.example/', 'a.example:8443', proxies.https],
    ['https://a.example:8443/', 'A.example:8443', undefined],
    ['https://a.example/', 'a.example:443', undefined],
  ] as const) {
    assert.equal(findProxy(url, { ...proxies, except }), expected, `${url} with NO_PROXY=${except}`)
  }
  assert.equal(findProxy('https://a.example/', { http: proxies.http }), undefined)
})

const folder = mkdtempSync(join(tmpdir(), 'leadpush-machine-'))
after(() => rmSync(folder, { recursive: true }))

function makeFile(path: string, text: string): string {
  const file = join(folder, path)
  mkdirSync(join(file, '..'), { recursive: true })
  writeFileSync(file, text)
  chmodSync(file, 0o755)
  return file
}

test('the weekly push is known by what a line makes leadpush do', () => {
  for (const [command, isWeekly] of [
    ['leadpush push --all', true], ['cd /srv && node bin/leadpush.js push --concurrency 8 --all --json', true],
    ['out="$(leadpush push --all 2>&1)" || echo "$out"', true], ['leadpush push --resume', false],
    ['leadpush push --user a@example.com; echo --all', false], ['leadpush push --all-the-same', false],
    ['git push --all', false], ['leadpush preview; leadpush status', false],
  ] as const) assert.equal(findJobs(`0 6 * * 1 ${command}`, 'x').length === 1, isWeekly, command)
}) // biome-ignore format: a table

test('lines of a crontab are read as cron reads them, and the program that they name is looked for', async () => {
  const program = makeFile('bin/leadpush', '')
  const troubleOf = async (text: string) => {
    const jobs = findJobs(text, 'x')
    assert.equal(jobs.length, 1, text)
    return jobs[0] && (await findJobTrouble(jobs[0]))
  }
  const line = '0 6 * * 1  leadpush push --all'
  const own = `PATH="${folder}/bin:/nowhere"`
  assert.equal(await troubleOf(`# ${line}\nMAILTO=a@example.com\n${own}\n${line}\n`), undefined)
  assert.match((await troubleOf(`PATH=/nowhere\n${line}\n${own}\n`)) ?? '', /does not find leadpush: .*\(\/nowhere\)/)
  assert.match((await troubleOf(line)) ?? '', /does not find leadpush: .*\(\/usr\/bin:\/bin\)/)
  assert.match(
    (await troubleOf('@weekly /nowhere/leadpush push --all')) ?? '',
    /names \/nowhere\/leadpush, which is not/,
  )
  assert.equal(await troubleOf(`0 6 * * 1 leadpush ${program} push --all`), undefined)
  // what only another program, or a shell, can tell
  for (const command of ['docker run leadpush', '$HOME/bin/leadpush', 'cd /srv && node bin/leadpush.js'])
    assert.equal(await troubleOf(`0 6 * * 1 ${command} push --all`), undefined)
})

test('the weekly push is found in the crontabs of user and system and among the timers, and missed where it is in none', async () => {
  const program = makeFile('usr/leadpush', '#!/bin/sh\n')
  const before = process.env.PATH
  process.env.PATH = `${folder}/fake:${before}`
  const list = (name: string, text: string) => makeFile(`fake/${name}`, `#!/bin/sh\ncat <<'END'\n${text}\nEND\n`)
  const check = async () =>
    (await checkSchedule(join(folder, 'etc'))).map((found) => `${found.level}: ${sentenceOf(found)}`).join(' ')
  try {
    makeFile('fake/crontab', '#!/bin/sh\necho "no crontab" >&2\nexit 1\n')
    list('systemctl', '')
    assert.match(await check(), /^note: No crontab .*`0 6-11 \* \* 1 leadpush push --all` with `crontab -e`/)
    list('crontab', `0 6 * * 1 ${program} push --all\n30 * * * * ${program} push --resume`)
    assert.equal(await check(), '')
    list('crontab', '')
    makeFile('etc/cron.d/leadpush', `0 6 * * 1 leadpush ${program} push --all\n`)
    assert.equal(await check(), '')
    makeFile('etc/cron.d/leadpush', '0 6 * * 1 root /nowhere/leadpush push --all\n')
    assert.match(await check(), /^note: .*cron\.d\/leadpush: the line for `push --all` names \/nowhere\/leadpush/)
    makeFile('etc/cron.d/leadpush', '')
    list('systemctl', 'Mon 2026-11-23 06:00:00 UTC 1 day left - - leadpush-push.timer leadpush-push.service')
    assert.equal(await check(), '')
  } finally {
    process.env.PATH = before
  }
})
