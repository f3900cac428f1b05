/** Every line that a command prints with `--json` has the fields that the page of JSON names (contract 3); every such command is there. */
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import type { Command } from 'commander'
import { buildProgram } from '../../src/cli/program.ts'
import { leadFields } from '../../src/leads/lead.ts'
import { startHookReceiver } from '../support/hook-receiver.ts'
import { addHook } from '../support/hooks.ts'
import { buildHouse, hrefOf, zip } from '../support/house.ts'
import { jsonLines, type Line, meanings, pushLines } from '../support/json-lines.ts'
import { testHome } from '../support/program.ts'

interface Shape {
  required: string[]
  allowed: Set<string>
}

function shapeOf({ type, like, fields }: Line): Shape {
  const more: Shape =
    like === undefined
      ? { required: [], allowed: new Set(type && ['type']) }
      : like === 'lead'
        ? { required: ['href'], allowed: new Set(['type', ...leadFields.map((field) => field.name)]) }
        : shapeOf(pushLines[like])
  const required = fields.filter((field) => !field.endsWith('?'))
  return {
    required: [...more.required, ...required],
    allowed: new Set([...more.allowed, ...fields.map((field) => field.replace('?', ''))]),
  }
}

/** The lines of each command, by their types. */
const lines = new Map(
  Object.entries(jsonLines).map(([command, those]) => [
    command,
    new Map(those.map((line) => [line.type ?? '', shapeOf(line)])),
  ]),
)

function* findCommands(command: Command, name: string): Generator<string> {
  if (command.options.some(({ long }) => long === '--json')) yield name
  for (const one of command.commands) yield* findCommands(one, `${name} ${one.name()}`.trim())
}

test('every command with --json has its lines on the page, and no other', () => {
  const program = buildProgram(
    async () => {},
    { out: () => {}, error: () => {} },
  ) // biome-ignore format: one
  assert.deepEqual([...lines.keys()].sort(), [...findCommands(program, '')].sort())
  assert.ok([...lines.values()].every((shapes) => shapes.size > 0))
})

test('every field that the page explains is in a line of a command that it names', () => {
  const stale = Object.entries(meanings).flatMap(([commands, fields]) => {
    const shapes = commands.split(', ').flatMap((command) => [...(lines.get(command)?.values() ?? [])])
    return Object.keys(fields)
      .flatMap((names) => names.split(', '))
      .filter((name) => !shapes.some(({ allowed }) => allowed.has(name)))
  })
  assert.deepEqual(stale, [])
})

test('every line that a command prints has the fields of its kind, and no others', async () => {
  const lead = (name: string, more = {}) => ({ href: hrefOf(name), postalCode: '78704', price: 1, ...more })
  const user = (name: string, queries = [zip('78704')]) => ({
    email: `${name}@example.com`,
    receiverApiKey: 'k',
    queries,
  })
  const house = await buildHouse({ leads: [lead('a'), lead('b')], users: [user('ann'), user('bob'), user('none', [])] })
  const platform = await startHookReceiver()
  const wrong: string[] = []
  const seen = new Set<string>()
  const call = async (args: string, input = '') => {
    const { json, stderr } = await house.call(`${args} --json`, { env: { LEADPUSH_ALLOW_INSECURE_HOOKS: '1' }, input })
    const command =
      [...lines.keys()].filter((name) => args.startsWith(name)).sort((a, b) => b.length - a.length)[0] ?? ''
    if (json.length === 0) wrong.push(`${args}: nothing, ${stderr}`)
    for (const line of json) {
      seen.add(`${command} ${line.type ?? ''}`)
      const shape = lines.get(command)?.get(line.type ?? '')
      const missing = shape?.required.filter((name) => !(name in line)) ?? []
      const unknown = Object.keys(line).filter((name) => !shape?.allowed.has(name))
      if (missing.length + unknown.length > 0)
        wrong.push(`${args}: ${line.type} lacks ${missing}; not named: ${unknown}`)
    }
    return json
  }
  const toInput = (records: readonly object[]) => `${records.map((record) => JSON.stringify(record)).join('\n')}\n`

  await call('migrate')
  await call('settings')
  await call('preview --diff --user ann@example.com')
  await call('push --all')
  await call('leads import -', toInput([lead('a', { price: 2 }), lead('c', { bathrooms: 'x' }), { href: 'bad' }]))
  await call('leads import --dry-run -', toInput([lead('d')]))
  await call('users import -', toInput([user('cy'), { email: 'x' }]))
  await call('preview --diff --user ann@example.com')
  await call('preview --force')
  await call('push --user ann@example.com')
  const [delivery] = await call('deliveries list')
  await call(`deliveries show ${delivery?.idempotencyKey}`)
  await call('status')
  await call('status --user ann@example.com')
  await call('leads list')
  await call(`leads show ${hrefOf('a')}`)
  await call('leads count')
  await call('users list')
  await call('users show ann@example.com')
  await call('users unsubscribe cy@example.com')
  await call('users unsubscribe ann@example.com bob@example.com nobody@example.com')
  await call('users subscribe ann@example.com bob@example.com nobody@example.com')
  const [created] = await call('integrations create --user ann@example.com')
  await call(`integrations rotate ${created?.id}`)
  const opened = await house.database.open()
  await addHook(opened, 'ann@example.com', platform.url('/hook'))
  await opened.close()
  await call('leads import -', toInput([lead('e')]))
  await call('trigger')
  await call('integrations list')
  await call(`explain --user ann@example.com ${hrefOf('a')}`)
  await call(`report --out ${join(testHome(), 'report.html')}`)
  await call('validate')
  const file = join(testHome(), 'leads.ndjson')
  writeFileSync(file, toInput([lead('a'), { href: 'bad' }]))
  await call(`validate ${file}`)
  await call(`integrations revoke ${created?.id}`)
  await call(`leads forget --href ${hrefOf('b')}`)
  await call('prune --older-than 90d')
  await call('prune --older-than 90d --dry-run')
  await call('users remove bob@example.com --dry-run')
  await call('users remove bob@example.com nobody@example.com')
  await platform.close()
  assert.deepEqual(wrong, [])
  assert.ok(seen.size >= 40, [...seen].join(', '))
})
