/** The workflows of examples/n8n and examples/node-red take the triggers that leadpush really sends (contract 6.3), and no others. */
import assert from 'node:assert/strict'
import crypto from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { packageRoot } from '../../src/base/package-root.ts'
import { rotateIntegration } from '../../src/integrations/integrations.ts'
import { completeLead } from '../../src/leads/lead.ts'
import { newLead } from '../../src/triggers/kinds/new-lead.ts'
import { createDatabase } from '../support/database.ts'
import { type ReceivedHookCall, startHookReceiver } from '../support/hook-receiver.ts'
import { addHook, runTrigger } from '../support/hooks.ts'
import { seedLeads, seedUsers } from '../support/seed.ts'

const opened = await (await createDatabase()).open()
const platform = await startHookReceiver()
after(() => platform.close())

// biome-ignore lint/suspicious/noExplicitAny: JSON of another program
const readWorkflow = (platform: string, name = 'new-leads'): any =>
  JSON.parse(readFileSync(join(packageRoot, 'examples', platform, `${name}.json`), 'utf8'))

type Names = Record<string, unknown>

/** Runs the code of a node as its platform does: as an async function that knows `names`, with the secret put in. */
function run(code: string, secret: string, names: Names, self?: object): Promise<unknown> {
  assert.ok(code.includes("'whsec_...'"))
  const AsyncFunction = (async () => {}).constructor as FunctionConstructor
  return new AsyncFunction(...Object.keys(names), code.replace('whsec_...', secret)).apply(self, Object.values(names))
}

type Request = Pick<ReceivedHookCall, 'headers' | 'body'>

/** The lead that n8n goes on with; rejects where its check fails. */
async function runInN8n(secret: string, { headers, body }: Request): Promise<unknown> {
  const { nodes } = readWorkflow('n8n')
  const [hook, check] = nodes
  assert.deepEqual([hook.parameters.httpMethod, hook.parameters.options.rawBody], ['POST', true])
  const names = {
    $input: { first: () => ({ json: { headers } }) },
    require: (name: string) => (name === 'crypto' ? crypto : assert.fail(`Module '${name}' is disallowed`)),
  }
  const self = { helpers: { getBinaryDataBuffer: async () => Buffer.from(body) } }
  const items = await run(check.parameters.jsCode, secret, names, self)
  return (items as [{ json: unknown }])[0].json
}

/** The same in Node-RED, where a check that fails answers with a status. */
async function runInNodeRed(secret: string, { headers, body }: Request): Promise<unknown> {
  const nodes = readWorkflow('node-red')
  const hook = nodes.find(({ type }: { type: string }) => type === 'http in')
  const check = nodes.find(({ type }: { type: string }) => type === 'function')
  assert.deepEqual(
    [hook.method, hook.skipBodyParsing, check.libs],
    ['post', true, [{ var: 'crypto', module: 'crypto' }]],
  )
  const [taken, refused] = (await run(check.func, secret, {
    msg: { req: { headers }, payload: Buffer.from(body) },
    node: { error: () => {} },
    crypto,
  })) as [{ payload: unknown; statusCode: number } | null, { payload: string; statusCode: number } | null]
  if (refused) {
    assert.deepEqual([taken, refused.statusCode], [null, 401])
    throw new Error(refused.payload)
  }
  assert.equal(taken?.statusCode, 204)
  return taken?.payload
}

for (const [name, runIn] of [
  ['n8n', runInN8n],
  ['Node-RED', runInNodeRed],
] as const) {
  test(`${name} takes a trigger with its own secret, also while another is beside it, and nothing else`, async () => {
    platform.calls.length = 0
    await opened.pool.query('delete from hooks')
    const user = { email: `${name.toLowerCase()}@example.com` }
    await seedUsers(opened.db, [user])
    const { integrationId, signingSecret } = await addHook(opened, user.email, platform.url('/'))
    await seedLeads(opened, [{ href: `https://listings.example/${name}`, description: 'Späti 🏠 \\ "quoted"\n' }])
    const rotated = await rotateIntegration(opened.db, integrationId, 60_000)
    assert.ok(rotated)
    const { counts } = await runTrigger(opened)
    assert.equal(counts.delivered, 1)
    const [call = assert.fail()] = platform.of()
    for (const secret of [signingSecret, rotated.integration.signingSecret])
      assert.deepEqual(await runIn(secret, call), call.json)

    const other = `whsec_${Buffer.alloc(32).toString('base64')}`
    await assert.rejects(runIn(other, call), /none of this secret/)
    await assert.rejects(runIn(signingSecret, { ...call, body: `${call.body} ` }), /none of this secret/)
    const { 'webhook-signature': _, ...unsigned } = call.headers
    await assert.rejects(runIn(signingSecret, { ...call, headers: unsigned }), /none of this secret/)
    const old = { ...call.headers, 'webhook-timestamp': String(Math.floor(call.atMs / 1_000) - 400) }
    await assert.rejects(runIn(signingSecret, { ...call, headers: old }), /older than 5 minutes/)
    const { 'webhook-timestamp': __, ...timeless } = call.headers
    await assert.rejects(runIn(signingSecret, { ...call, headers: timeless }), /older than 5 minutes/)
  })
}

test('a lead becomes an event of Follow Up Boss, which says what it knows of the owner and the house', async () => {
  const { nodes, connections } = readWorkflow('n8n', 'follow-up-boss')
  const names = nodes.map(({ name }: { name: string }) => name)
  for (const [at, name] of names.slice(0, -1).entries()) assert.equal(connections[name].main[0][0].node, names[at + 1])
  const code = (name: string) => nodes.find((node: { name: string }) => node.name === name).parameters.jsCode
  // the check of the signature is that of the other workflow
  assert.equal(code('Check the signature'), readWorkflow('n8n').nodes[1].parameters.jsCode)
  const AsyncFunction = (async () => {}).constructor as FunctionConstructor
  const runNode = async (name: string, json: object) =>
    await new AsyncFunction('$input', code(name))({ first: () => ({ json }), all: () => [{ json }] })

  const arrived = { occurredAt: new Date(), payload: null }
  const whole = newLead.build(
    completeLead({
      ...{ href: 'https://listings.example/1', postalCode: '78704', price: 350_000, bedrooms: 3, address: '12 Elm St' },
      ...{
        secondAddress: 'Unit 4',
        city: 'Austin',
        state: 'TX',
        contactName: 'Ann Lee Moss',
        contactEmail: 'ann@example.com',
      },
      ...{ contactPhone: '512-555-0100', description: 'x'.repeat(3_000), propertyType: 'condo' },
    }),
    arrived,
  )
  const [{ json: event }] = await runNode('Make the event', whole)
  assert.deepEqual(event.person, {
    firstName: 'Ann',
    lastName: 'Lee Moss',
    emails: [{ value: 'ann@example.com' }],
    phones: [{ value: '512-555-0100' }],
  })
  const { street, city, state, code: postal, price, bedrooms, bathrooms, type, url } = event.property
  assert.deepEqual(
    [street, city, state, postal, price, bedrooms, bathrooms, type, url],
    ['12 Elm St Unit 4', 'Austin', 'TX', '78704', 350_000, 3, undefined, 'condo', 'https://listings.example/1'],
  )
  assert.deepEqual([event.type, event.description.length, 'occurredAt' in event], ['Seller Inquiry', 2_000, false])

  const bare = newLead.build(completeLead({ href: 'https://listings.example/2', postalCode: '78704' }), arrived)
  const [{ json: least }] = await runNode('Make the event', bare)
  assert.deepEqual(JSON.parse(JSON.stringify(least.person)), {
    firstName: 'Owner',
    lastName: 'of https://listings.example/2',
  })

  await assert.rejects(runNode('Look at the answer', { statusCode: 204 }), /ignores this source/)
  for (const statusCode of [200, 201]) assert.equal((await runNode('Look at the answer', { statusCode })).length, 1)
})

test('each page names what its workflow needs, and each workflow leads from the hook to the last node', () => {
  const pageOf = (platform: string) => readFileSync(join(packageRoot, 'examples', platform, 'README.md'), 'utf8')
  const { nodes, connections } = readWorkflow('n8n')
  const names = nodes.map((node: { name: string }) => node.name)
  for (const [at, name] of names.slice(0, -1).entries()) assert.equal(connections[name].main[0][0].node, names[at + 1])
  assert.ok(pageOf('n8n').includes(`/webhook/${nodes[0].parameters.path}`))
  assert.ok(pageOf('n8n').includes(`/webhook/${readWorkflow('n8n', 'follow-up-boss').nodes[0].parameters.path}`))
  const flow = readWorkflow('node-red')
  const ids = flow.map(({ id }: { id: string }) => id)
  for (const { wires = [] } of flow) for (const id of wires.flat()) assert.ok(ids.includes(id), id)
  assert.ok(pageOf('node-red').includes(`.example.com${flow[1].url}`))
  for (const name of ['n8n', 'node-red']) {
    const workflows = name === 'n8n' ? [readWorkflow(name), readWorkflow(name, 'follow-up-boss')] : [readWorkflow(name)]
    const text = JSON.stringify(workflows)
    for (const [, label = ''] of pageOf(name)
      .replaceAll('\n', ' ')
      .matchAll(/\*(Check [^*]+|Say [^*]+|Send [^*]+|Look [^*]+)\*/g))
      assert.ok(text.includes(label), label)
  }
})

// A workflow whose secret was never put in, or was pasted in part, took what anybody signed with nothing.
test('the workflows refuse a secret of fewer than 24 bytes, even one that signed the call', async () => {
  const body = '{"id":1}'
  for (const bytes of [0, 23, 24]) {
    const secret = `whsec_${Buffer.alloc(bytes, 7).toString('base64')}`
    const timestamp = String(Math.floor(Date.now() / 1_000))
    const signature = crypto
      .createHmac('sha256', Buffer.alloc(bytes, 7))
      .update(`m.${timestamp}.${body}`)
      .digest('base64')
    const headers = { 'webhook-id': 'm', 'webhook-timestamp': timestamp, 'webhook-signature': `v1,${signature}` }
    const request = { headers, body } as unknown as Request
    for (const takeBy of [runInN8n, runInNodeRed]) {
      if (bytes >= 24) assert.deepEqual(await takeBy(secret, request), { id: 1 })
      else await assert.rejects(takeBy(secret, request), /needs the signing secret/)
    }
  }
})
