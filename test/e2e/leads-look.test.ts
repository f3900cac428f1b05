/** `leads list`, `leads show` and `leads count` through the program (contract 3): what is printed, and that contacts are not. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { leadFields } from '../../src/leads/lead.ts'
import { buildHouse, hrefOf, makeUsers } from '../support/house.ts'
import { toLines, writeInput } from '../support/import-files.ts'

const contact = { contactName: 'Ann Owner', contactPhone: '512 555 0143', contactEmail: 'ann-owner@example.com' }
const secrets = /Owner|0143|0199|ann-owner/
const lead = (name: string, more: object = {}) => ({ href: hrefOf(name), postalCode: '78704', ...contact, ...more })

test('listings are shown newest first, with their contacts only where these are asked for', async () => {
  const leads = [lead('a', { city: 'Austin', price: 350_000, bedrooms: 3 }), lead('b', { city: 'Dallas' })]
  const house = await buildHouse({ leads, users: makeUsers(1) })
  await house.put('leads', [lead('a', { contactPhone: '512 555 0199', price: 340_000 })])

  const { code, json, stdout } = await house.call('leads list --json')
  assert.equal(code, 0)
  assert.deepEqual(
    json.map(({ href }) => href),
    [hrefOf('a'), hrefOf('b')],
  )
  const shown = leadFields
    .map(({ name }) => String(name))
    .filter((name) => !(name in contact) && name !== 'fullAddress')
  assert.deepEqual(Object.keys(json[0]), ['type', ...shown, 'lastSeenAt', 'sources'])
  assert.deepEqual([json[0].price, json[0].sources, json[1].city], [340_000, [], 'Dallas'])
  assert.equal(new Date(json[0].lastSeenAt).toISOString(), json[0].lastSeenAt)
  const table = await house.call('leads list --where city=AUSTIN')
  assert.match(table.stdout, /\$340,000 +3\/– +Austin 78704 +https:\/\/listings\.example\/a\n$/)
  const one = await house.call(`leads show ${hrefOf('a')} --json`)
  const { versions, users, usersComplete, place } = one.json[0]
  assert.deepEqual(versions[0].changes, [{ field: 'price', from: 350_000, to: 340_000 }, { field: 'contactPhone' }])
  assert.deepEqual([users.map(({ email }: { email: string }) => email), usersComplete], [['user-0@example.com'], true])
  assert.deepEqual([place.postalKey, place.city], ['78704', 'Austin'])
  const text = await house.call(`leads show ${hrefOf('a')}`)
  assert.match(text.stdout, /price \$?350000 → 340000, contactPhone changed/)
  assert.match(text.stdout, /Matched by the queries of 1 user\n {2}user-0@example\.com/)
  for (const output of [stdout, table.stdout, one.stdout, text.stdout]) assert.doesNotMatch(output, secrets)

  const all = await house.call('leads list --contacts --limit 1 --json')
  assert.deepEqual(
    all.json.map(({ contactName, contactPhone }) => [contactName, contactPhone]),
    [['Ann Owner', '512 555 0199']],
  )
  assert.match((await house.call('leads list --contacts')).stdout, /Ann Owner, 512 555 0143, ann-owner@example\.com/)
  assert.match(
    (await house.call(`leads show --contacts ${hrefOf('a')}`)).stdout,
    /contactPhone 512 555 0143 → 512 555 0199/,
  )
})

test('a listing names the sources that have it, and tells when none has it any more', async () => {
  const house = await buildHouse()
  const put = async (source: string, names: string[], more: string[] = []) => {
    const file = writeInput('sources.ndjson', toLines(names.map((name) => lead(name))))
    const { code, stderr } = await house.call(['leads', 'import', file, '--source', source, ...more])
    assert.equal(code, 0, stderr)
  }
  const show = async (name: string) => (await house.call(`leads show ${hrefOf(name)} --json`)).json[0]
  await put('b-feed', ['a', 'b', 'c'])
  await put('a-feed', ['a'])
  const { json } = await house.call('leads list --json')
  assert.deepEqual(json.map(({ sources }) => sources.join()).sort(), ['a-feed,b-feed', 'b-feed', 'b-feed'])
  await put('b-feed', ['b', 'c', 'd'], ['--complete'])
  await put('b-feed', ['c', 'd', 'e'], ['--complete'])
  const [a, b, c] = [await show('a'), await show('b'), await show('c')]
  assert.deepEqual(
    [a.sources, a.gone, b.sources, b.gone, c.sources, c.gone],
    [['a-feed'], false, [], true, ['b-feed'], false],
  )
  assert.match((await house.call(`leads show ${hrefOf('b')}`)).stdout, /gone +no source has it any more/)
})

test('conditions join, are counted, and wrong ones are wrong usage', async () => {
  const house = await buildHouse({
    leads: [lead('a', { city: 'Austin' }), lead('b', { city: 'Austin', price: 1 }), lead('c')],
  })
  const count = async (args: string) => (await house.call(`leads count ${args}--json`)).json[0].leads
  assert.deepEqual(
    [await count(''), await count('--where city=austin '), await count('--where city=austin --where price= ')],
    [3, 2, 1],
  )
  assert.equal((await house.call('leads count')).stdout, '3 listings\n')
  const none = await house.call('leads list --where city=nowhere')
  assert.deepEqual([none.code, none.stdout], [0, 'No listing fits these conditions.\n'])
  for (const args of ['--where town=x', '--where city', '--limit 0', '--limit x']) {
    assert.deepEqual([args, (await house.call(`leads list ${args}`)).code], [args, 2])
  }
  const unknown = await house.call(`leads show ${hrefOf('none')}`)
  assert.deepEqual([unknown.code, /There is no listing/.test(unknown.stderr)], [2, true])
})
