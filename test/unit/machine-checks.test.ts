/** What `validate` makes of figures that no test can bring about: both sides of every limit; and crontabs as cron reads them. */
import assert from 'node:assert/strict'
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import type { ServerFacts } from '../../src/db/survey.ts'
import { findProxy } from '../../src/http/reach.ts'
import type { Verdict } from '../../src/inspect/machine/check.ts'
import { judgeDates } from '../../src/inspect/machine/client-certificate.ts'
import { judgeClock } from '../../src/inspect/machine/clock.ts'
import { findCronJobs, findJobTrouble, kindOf } from '../../src/inspect/machine/cron-jobs.ts'
import { judgeConnections, judgeDurability, judgeWriting } from '../../src/inspect/machine/database.ts'
import { judgeNode } from '../../src/inspect/machine/installation.ts'
import { judgeUpkeep } from '../../src/inspect/machine/ledger.ts'
import { judgeDisks, judgeMemory, judgeOpenFiles } from '../../src/inspect/machine/machine.ts'
import { checkSchedule } from '../../src/inspect/machine/schedule.ts'
import { judgeStandbys } from '../../src/inspect/machine/standbys.ts'
import { certificate } from '../support/sockets.ts'

const node = (version: string, day: string) => judgeNode(version, new Date(`${day}T12:00:00Z`))
const disk = (freeBytes: number, bytes = 100e9) => judgeDisks([{ what: 'temporary files', freeBytes, bytes }])
const clock = (aheadMs: number, aheadErrorMs = 0) => judgeClock({ aheadMs, aheadErrorMs })
const free = (freeConnections: number, pooled = false) =>
  judgeConnections({ freeConnections, connectionsMax: 97, pooled } as ServerFacts)
const durable = { fsync: true, fullPageWrites: true, synchronousCommit: 'on' }
const cluster = { standby: false, role: 'app', synchronousNames: 'b', synchronousCommit: 'on', standbys: ['b'] }
const standbys = (facts: Partial<Parameters<typeof judgeStandbys>[0]>) =>
  judgeStandbys({ ...cluster, synchronousStandbys: 1, ...facts })
const kept = { databaseBytes: 5e9, frozenAge: 1e9, withoutAutovacuum: [], bloated: [], invalidIndexes: [] }

const pem = (file: string) => readFileSync(certificate(file), 'utf8')
const dates = (pems: string, day: string) => judgeDates(pems, new Date(`${day}T00:00:00Z`))
const chain = pem('client.pem') + pem('client-expired.pem')

const cases: [what: string, verdict: Verdict, status: Verdict['status'], words: RegExp][] = [
  ['the oldest Node.js, on its last day', node('20.19.0', '2026-04-30'), 'pass', /20\.19\.0, .* until 2026-04-30/],
  ['the same a day later', node('20.19.0', '2026-05-01'), 'warn', /no security fixes since 2026-04-30.*newest long-term/],
  ['one that is too old', node('20.18.3', '2025-01-01'), 'fail', /needs 20\.19/],
  ['22 on its last day', node('22.1.0', '2027-04-30'), 'pass', /until 2027/],
  ['22 after it', node('22.1.0', '2027-05-01'), 'warn', /since 2027-04-30/],
  ['24 after its last day', node('24.1.0', '2028-05-01'), 'warn', /since 2028-04-30/],
  ['an odd version', node('23.11.0', '2026-01-01'), 'warn', /no long-term version/],
  ['one that is newer than this program', node('26.0.0', '2026-06-01'), 'pass', /^26\.0\.0$/],
  ['a client certificate on its first day', dates(pem('client.pem'), '2020-01-01'), 'pass', /belongs to its key.*until 2119-01-01/],
  ['the day before', dates(pem('client.pem'), '2019-12-31'), 'fail', /not valid before 2020-01-01.*clock/],
  ['30 days before its end', dates(pem('client-expired.pem'), '2020-03-02'), 'pass', /until 2020-04-01/],
  ['less than 30 days', dates(pem('client-expired.pem'), '2020-03-03'), 'warn', /ends in 29 days, on 2020-04-01.*new one/],
  ['its last day', dates(pem('client-expired.pem'), '2020-03-31'), 'warn', /ends in 1 day, on/],
  ['its end', dates(pem('client-expired.pem'), '2020-04-01'), 'fail', /expired on 2020-04-01.*LEADPUSH_CLIENT_CERT/],
  ['a chain of which another one is over', dates(chain, '2021-01-01'), 'fail', /Certificate 2 of the chain expired/],
  ['a disk with room', disk(10e9), 'pass', /10\.0 GB of 100\.0 GB free \(temporary files\)/],
  ['less than a tenth of a disk', disk(9.9e9), 'warn', /Only 9\.9 GB.*Make room/],
  ['1 GB of a small disk', disk(1e9, 5e9), 'pass', /1\.0 GB/],
  ['less than 1 GB', disk(999e6, 5e9), 'warn', /Only 999\.0 MB/],
  ['100 MB', disk(100e6, 5e9), 'warn', /100\.0 MB/],
  ['less than 100 MB', disk(99e6, 5e9), 'fail', /99\.0 MB/],
  ['a clock that is right by a second', clock(1_000), 'pass', /1\.000 s/],
  ['a clock that is behind', clock(1_001), 'warn', /clock is 1\.001 s behind.*time synchronisation/],
  ['a clock that is ahead, as far as a slow answer tells', clock(-1_600, 600), 'pass', /1\.600 s/],
  ['a clock that is ahead', clock(-300_000), 'warn', /300 s ahead of/],
  ['a clock that is no clock', clock(-300_001), 'fail', /300 s ahead of.*certificates/],
  ['connections for a push', free(8), 'pass', /8 of 97 are free/],
  ['too few of them', free(7), 'warn', /Only 7 of 97.*PgBouncer/],
  ['none left', free(0), 'fail', /Only 0 of 97/],
  ['none left, which is the affair of the pooler', free(0, true), 'pass', /behind the pooler/],
  ['a standby', judgeWriting({ standby: true, readOnly: false, statementTimeout: '0' }), 'fail', /standby.*primary/],
  ['a time limit', judgeWriting({ standby: false, readOnly: false, statementTimeout: '30s' }), 'warn', /is 30s: .*imports.*timeout = 0/],
  ['a server that forgets nothing', judgeDurability(durable), 'pass', /survives/],
  ['a server without fsync', judgeDurability({ ...durable, fsync: false }), 'warn', /fsync is off.*send them again.*fsync = on/],
  ['a server without whole pages', judgeDurability({ ...durable, fullPageWrites: false }), 'warn', /full_page_writes is off/],
  ['a server that confirms early', judgeDurability({ ...durable, synchronousCommit: 'off' }), 'warn', /synchronous_commit is off/],
  ['a server without standbys', standbys({ synchronousNames: '', standbys: [], synchronousStandbys: 0 }), 'pass', /there are none/],
  ['an asynchronous standby', standbys({ synchronousNames: '', synchronousStandbys: 0 }), 'warn', /1 standby attached, none of them synchronous.*more than twice.*synchronous_mode/],
  ['the same, as every role sees it', standbys({ synchronousNames: '', synchronousStandbys: null }), 'warn', /none of them synchronous/],
  ['a synchronous standby', standbys({}), 'pass', /1 standby attached, 1 synchronous/],
  ['a synchronous standby that is away', standbys({ standbys: [], synchronousStandbys: 0 }), 'fail', /'b', and no such standby is attached: commits wait.*Start/],
  ['another one in its place', standbys({ standbys: ['c'], synchronousStandbys: 0 }), 'fail', /no such standby/],
  ['the same, without the right to see its state', standbys({ standbys: ['c'], synchronousStandbys: null }), 'fail', /no such standby/],
  ['the right one, likewise', standbys({ standbys: ['B'], synchronousStandbys: null }), 'pass', /pg_monitor sees \(grant pg_monitor to "app"\)/],
  ['any one, likewise', standbys({ synchronousNames: 'ANY 1 (*)', standbys: ['c'], synchronousStandbys: null }), 'pass', /pg_monitor/],
  ['a name in quotes, likewise', standbys({ synchronousNames: 'FIRST 1 ("b", c)', synchronousStandbys: null }), 'pass', /pg_monitor/],
  ['one of two', standbys({ synchronousNames: 'ANY 2 (b, c)' }), 'fail', /only 1 of 2 are attached/],
  ['two of two', standbys({ synchronousNames: '2 (b, c)', standbys: ['b', 'c'], synchronousStandbys: 2 }), 'pass', /2 synchronous/],
  ['imports that wait for no standby', standbys({ synchronousCommit: 'local' }), 'warn', /synchronous_commit is local.*last imports/],
  ['a standby itself', standbys({ standby: true }), 'skipped', /standby itself/],
  ['tables that are kept in order', judgeUpkeep(kept, true), 'pass', /5\.0 GB; autovacuum is on/],
  ['no autovacuum', judgeUpkeep(kept, false), 'warn', /autovacuum = on/],
  ['old transactions', judgeUpkeep({ ...kept, frozenAge: 1e9 + 1 }, true), 'warn', /1\.0 thousand million back.*vacuumdb/],
  ['dead rows', judgeUpkeep({ ...kept, bloated: ['leads'] }, true), 'warn', /rows of leads are dead.*vacuum \(analyze\) leads/],
  ['files for 16 requests', judgeOpenFiles(80, 16), 'pass', /80 may be open/],
  ['fewer', judgeOpenFiles(79, 16), 'warn', /79 files; 16 requests.*want 80.*ulimit/],
  ['memory enough', judgeMemory(400e6), 'pass', /400\.0 MB/],
  ['a small container', judgeMemory(399e6), 'warn', /Only 399\.0 MB.*Allow this container/],
] // biome-ignore format: a table

test('each figure comes to its status on both sides of its limit, with what to do', () => {
  for (const [what, verdict, status, words] of cases) {
    assert.equal(verdict.status, status, what)
    assert.match([verdict.message, ...verdict.troubles.map(({ remedy }) => remedy)].join(' '), words, what)
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

test('a command is known by what it makes leadpush do', () => {
  for (const [command, kind] of [
    ['leadpush push --all', 'push --all'], ['cd /srv && node bin/leadpush.js push --concurrency 8 --all --json', 'push --all'],
    ['out="$(leadpush push --resume 2>&1)" || echo "$out"', 'push --resume'], ['leadpush trigger', 'trigger'],
    ['out="$(leadpush trigger)"', 'trigger'], ['/usr/bin/leadpush prune --older-than 90d > /dev/null', 'prune'],
    ['leadpush push --user a@example.com; echo --all', undefined], ['leadpush push --all-the-same', undefined],
    ['git push --all', undefined], ['leadpush preview; leadpush status', undefined],
  ] as const) assert.equal(kindOf(command), kind, command)
}) // biome-ignore format: a table

test('lines of a crontab are read as cron reads them, and what they name is looked for', async () => {
  const env = makeFile('bin/leadpush', '#!/usr/bin/env node\n')
  makeFile('node/node', '')
  makeFile('checkout/bin/leadpush.js', '#!/usr/bin/env node\n')
  const [bin, nodeBin] = [join(folder, 'bin'), join(folder, 'node')]
  const troubleOf = async (text: string, namesUser = false) => {
    const jobs = findCronJobs(text, { where: 'x', namesUser, home: folder })
    assert.equal(jobs.length, 1, text)
    return jobs[0] && (await findJobTrouble(jobs[0]))?.what
  }
  const line = '0 6 * * 1  leadpush push --all'
  assert.equal(await troubleOf(`# ${line}\nMAILTO=a@example.com\nPATH="${bin}:${nodeBin}"\n${line}\n`), undefined)
  assert.match(
    (await troubleOf(`PATH=/nowhere\n${line}\nPATH=${bin}\n`)) ?? '',
    /does not find leadpush: .*\(\/nowhere\)/,
  )
  assert.match((await troubleOf(`PATH=${bin}\n${line}`)) ?? '', /does not find Node\.js \(node, in /)
  assert.match(
    (await troubleOf('@weekly /nowhere/leadpush push --all')) ?? '',
    /names \/nowhere\/leadpush, which is not/,
  )
  assert.equal(await troubleOf(`PATH=${nodeBin}\n0 6 * * 1 root ${env} push --all`, true), undefined)
  const inFolder = (name: string) => `0 6 * * 1 cd ${folder}/checkout && ${nodeBin}/${name} bin/leadpush.js push --all`
  assert.equal(await troubleOf(inFolder('node')), undefined)
  assert.match((await troubleOf(inFolder('nosuch/node'))) ?? '', /does not find Node\.js/)
  assert.match(
    (await troubleOf('0 6 * * 1 bin/leadpush.js push --all')) ?? '',
    new RegExp(`names ${folder}/bin/leadpush.js`),
  )
  // what only another program, or a shell, can tell
  assert.equal(await troubleOf('0 6 * * 1 docker run leadpush push --all'), undefined)
  assert.equal(await troubleOf('0 6 * * 1 $HOME/bin/leadpush push --all'), undefined)
})

test('the weekly push is found in the crontabs of user and system and among the timers, and missed where it is in none', async () => {
  const program = makeFile('usr/leadpush', '#!/bin/sh\n')
  const places = { etc: join(folder, 'etc'), home: folder, unitFolders: [join(folder, 'units')] }
  const before = process.env.PATH
  process.env.PATH = `${folder}/fake:${before}`
  const list = (name: string, text: string) => makeFile(`fake/${name}`, `#!/bin/sh\ncat <<'END'\n${text}\nEND\n`)
  const check = async () => {
    const { status, message, troubles } = await checkSchedule(places)
    return `${status}: ${message} ${troubles.map(({ remedy }) => remedy).join(' ')}`
  }
  try {
    makeFile('fake/crontab', '#!/bin/sh\necho "no crontab" >&2\nexit 1\n')
    list('systemctl', '')
    assert.match(await check(), /^warn: No crontab .*`0 6-11 \* \* 1 leadpush push --all` with `crontab -e`/)
    list('crontab', `0 6 * * 1 ${program} push --all\n30 * * * * ${program} push --resume`)
    assert.match(await check(), /^pass: `push --all`: the crontab of this user; nothing runs trigger, prune/)
    list('crontab', '')
    makeFile('etc/cron.d/leadpush', `0 6 * * 1 leadpush ${program} push --all\n`)
    assert.match(await check(), /^pass: .*etc\/cron\.d\/leadpush; nothing runs push --resume, trigger, prune/)
    makeFile('etc/cron.d/leadpush', '0 6 * * 1 root /nowhere/leadpush push --all\n')
    assert.match(await check(), /^warn: .*cron\.d\/leadpush: the line for `push --all` names \/nowhere\/leadpush/)
    makeFile('etc/cron.d/leadpush', '')
    makeFile('units/leadpush-push.service', `[Service]\nExecStart=${program} push --all\n`)
    assert.match(await check(), /^warn: leadpush-push\.timer is installed, and not running\..*enable --now/)
    list('systemctl', 'Mon 2026-11-23 06:00:00 UTC 1 day left - - leadpush-push.timer leadpush-push.service')
    assert.match(await check(), /^pass: `push --all`: leadpush-push\.timer; /)
    makeFile('units/leadpush-push.service', '[Service]\nExecStart=/nowhere/leadpush push --all\n')
    assert.match(await check(), /^warn: leadpush-push\.timer: .*names \/nowhere\/leadpush/)
  } finally {
    process.env.PATH = before
  }
})
