/** The programs that pages show do what the pages say: a receiver, and checks of a trigger's signature. */
import assert from 'node:assert/strict'
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { test } from 'node:test'
import { Webhook } from 'standardwebhooks'
import { packageRoot } from '../../src/base/package-root.ts'
import { buildHouse, hrefOf, zip } from '../support/house.ts'
import { findInstalled } from '../support/installed.ts'
import { testHome } from '../support/program.ts'

/** The first block of code of a language on a page. */
function readCode(page: string, language: string): string {
  const text = readFileSync(join(packageRoot, page), 'utf8')
  const [, code = ''] = new RegExp(`^\`\`\`${language}\\n([^]*?)^\`\`\``, 'm').exec(text) ?? []
  assert.notEqual(code, '', `${page} has no ${language}`)
  return code
}

function write(name: string, code: string): string {
  const file = join(testHome(), name)
  writeFileSync(file, code)
  return file
}

test('the receiver of the page passes the probe, takes a push, and keeps what a null does not know', async (t) => {
  const code = readCode('docs/receivers.md', 'js')
  assert.ok(code.split('\n').length <= 26, 'some twenty lines')
  const onFreePort = code.replace('.listen(8080)', ".listen(0, '127.0.0.1', function () { console.log(this.address().port) })")
  // a line of input, and it prints what it knows
  const looked = `${onFreePort}\nprocess.stdin.on('data', () => console.log(JSON.stringify([...leads.values()])))\n`
  const receiver: ChildProcess = spawn(process.execPath, [write('receiver.mjs', looked)], { stdio: ['pipe', 'pipe', 'inherit'] })
  t.after(() => receiver.kill())
  const lines = createInterface({ input: receiver.stdout as NodeJS.ReadableStream })
  const [port] = await once(lines, 'line')

  const users = ['ann', 'bob'].map((name) => ({
    email: `${name}@example.com`,
    receiverApiKey: `key-of-${name}`,
    queries: [zip('78704')],
  }))
  const house = await buildHouse({ leads: [{ href: hrefOf(1), postalCode: '78704', price: 350_000 }], users })
  const env = { LEADPUSH_RECEIVER_URL: `http://127.0.0.1:${port}/` }
  const push = await house.call('push --all --json', { env })
  assert.deepEqual([push.code, push.json.at(-1).delivered], [0, 2], push.stderr)
  const probe = await house.call('probe --user ann@example.com --yes', { env })
  assert.match(probe.stdout, /\b0 warn, 0 fail\b/)
  assert.equal(probe.code, 0, probe.stdout)

  const body = JSON.stringify({ queryList: [], fsbos: [{ href: hrefOf(1), price: 0, city: null, state: 'TX' }] })
  const headers = { 'Content-Type': 'application/json', 'X-Service-API-Key': 'key-of-ann', 'X-Idempotency-Key': 'later' }
  assert.equal((await fetch(env.LEADPUSH_RECEIVER_URL, { method: 'POST', headers, body })).status, 200)
  receiver.stdin?.write('look\n')
  const [known] = await once(lines, 'line')
  const ours = JSON.parse(known).filter(({ href }: { href: string }) => href === hrefOf(1))
  assert.deepEqual(ours.map(({ price, state }: { price: number; state?: string }) => [price, state]), [[350_000, 'TX'], [350_000, undefined]])
}) // biome-ignore format: dense

const secret = `whsec_${Buffer.alloc(32, 7).toString('base64')}`

interface Call {
  secret: string
  headers: Record<string, string>
  body: string
}

/** Calls, and whether a check of signatures has to take them. */
function makeCalls(): [Call, boolean][] {
  const body = '{"trigger":"new_lead","city":"Québec"}'
  const sign = (key: string, at: Date) => new Webhook(key).sign('msg_1', at, body)
  const call = (at: Date, signature: string, given = body): Call => ({
    secret,
    headers: { 'webhook-id': 'msg_1', 'webhook-timestamp': String(Math.floor(at.getTime() / 1_000)), 'webhook-signature': signature },
    body: given,
  })
  const now = new Date()
  const old = new Date(now.getTime() - 3_600_000)
  const other = sign(`whsec_${Buffer.alloc(32, 8).toString('base64')}`, now)
  return [
    [call(now, sign(secret, now)), true],
    [call(now, `${other} ${sign(secret, now)}`), true],
    [call(now, other), false],
    [call(old, sign(secret, old)), false],
    [call(now, sign(secret, now), `${body} `), false],
  ]
} // biome-ignore format: dense

/** What reads the calls on standard input and prints a line for each. */
const checks: { name: string; program: string; language: string; make: (code: string) => string }[] = [
  {
    name: 'Python',
    program: 'python3',
    language: 'python',
    make: (code) =>
      `${code}\nimport json, sys\nfor call in json.load(sys.stdin): print(is_ours(call["secret"], call["headers"], call["body"].encode()))\n`,
  },
  {
    name: 'PHP',
    program: 'php',
    language: 'php',
    make: (code) =>
      `<?php\n${code}\nforeach (json_decode(file_get_contents('php://stdin'), true) as $call)\n  echo isOurs($call['secret'], $call['headers'], $call['body']) ? "True\\n" : "False\\n";\n`,
  },
]

for (const { name, program, language, make } of checks) {
  const path = findInstalled(program)
  test(`the check of a signature in ${name} takes ours, one of two, and no other`, { skip: path === undefined && `there is no ${program} here` }, () => {
    const calls = makeCalls()
    const file = write(`check.${language}`, make(readCode('docs/platforms.md', language)))
    const printed = execFileSync(path ?? program, [file], { input: JSON.stringify(calls.map(([call]) => call)), encoding: 'utf8' })
    assert.deepEqual(printed.trim().split('\n'), calls.map(([, isOurs]) => (isOurs ? 'True' : 'False')))
  }) // biome-ignore format: dense
}
