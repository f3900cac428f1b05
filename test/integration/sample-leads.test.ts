/** The sample leads that a platform is shown (contract 5, /sample). */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sampleTextCharsMax } from '../../src/base/limits.ts'
import { leadFields } from '../../src/leads/lead.ts'
import { findSampleLeads } from '../../src/server/sample-leads.ts'
import { createDatabase } from '../support/database.ts'
import { toLines, writeInput } from '../support/import-files.ts'
import { seedLeads } from '../support/seed.ts'

const opened = await (await createDatabase(undefined, { places: 'all' })).open()
const hrefOf = (name: string) => `https://listings.example.com/${name}`
const maxLeadAgeMs = 30 * 86_400_000

async function importUser(email: string, queries: object[]): Promise<number> {
  const { importUsers } = await import('../../src/users/import.ts')
  const file = writeInput(`${email}.ndjson`, toLines([{ email, receiverApiKey: 'k', queries }]))
  const { summary } = await importUsers(opened, [file])
  assert.equal(summary.rejected, 0)
  const { id } = await opened.db.selectFrom('users').select('id').where('email', '=', email).executeTakeFirstOrThrow()
  return id
}

const sample = (userId: number) => findSampleLeads(opened.db, userId, { maxLeadAgeMs, sameHouse: 'each' })

test('a user without leads, or without queries, gets three made-up ones of the same shape', async () => {
  const nowhere = await importUser('nowhere@example.com', [{ type: 'zipcode', value: '99950', radius: 0 }])
  const without = await importUser('without@example.com', [])
  for (const user of [nowhere, without]) {
    const leads = await sample(user)
    assert.equal(leads.length, 3)
    assert.equal(new Set(leads.map(({ id }) => id)).size, 3)
    for (const lead of leads) {
      assert.match(lead.href, /^https:\/\/listings\.example\//)
      assert.match(lead.description ?? '', /example/)
      assert.deepEqual(Object.keys(lead), ['id', 'trigger', 'occurredAt', ...leadFields.map(({ name }) => name)])
      assert.ok(Object.values(lead).every((value) => value !== null))
    }
  }
})

test('long texts are cut: a listing may have 8 MiB', async () => {
  // 40 answers of three such listings, which nobody read, took gigabytes
  const user = await importUser('long@example.com', [{ type: 'zipcode', value: '73301', radius: 0 }])
  await seedLeads(opened, [
    { href: hrefOf('long'), postalCode: '73301', description: 'x'.repeat(100_000), city: 'Austin' },
    ...[0, 1].map((more) => ({
      href: hrefOf(`limit-${more}`),
      postalCode: '73301',
      description: 'x'.repeat(sampleTextCharsMax + more),
    })),
  ])
  const [lead, whole, cut] = await sample(user)
  assert.deepEqual([lead?.href, lead?.city], [hrefOf('long'), 'Austin'])
  const most = 'x'.repeat(sampleTextCharsMax)
  assert.deepEqual([lead, whole, cut].map((each) => each?.description), [`${most}…`, most, `${most}…`]) // biome-ignore format: short
})

test('the three newest that match any query, one object a lead, with every field and null for what is unknown', async () => {
  const user = await importUser('both@example.com', [
    { type: 'zipcode', value: '78704', radius: 0 },
    { type: 'zipcode', value: '78701', radius: 0 },
    { type: 'text', value: 'sauna', radius: 0 },
  ])
  await seedLeads(opened, [{ href: hrefOf('old'), postalCode: '78704' }])
  await seedLeads(opened, [{ href: hrefOf('place'), postalCode: '78701' }])
  await seedLeads(opened, [
    { href: hrefOf('words'), postalCode: '10001', description: 'with a sauna' },
    { href: hrefOf('place-and-words'), postalCode: '78704', description: 'sauna' },
  ])
  await seedLeads(opened, [{ href: hrefOf('other'), postalCode: '10001' }])
  const leads = await sample(user)
  assert.deepEqual(
    leads.map(({ href }) => href),
    ['words', 'place-and-words', 'place'].map(hrefOf),
  )
  for (const lead of leads) {
    assert.deepEqual(Object.keys(lead), ['id', 'trigger', 'occurredAt', ...leadFields.map(({ name }) => name)])
    assert.deepEqual([lead.fullAddress, lead.contactName, lead.price, lead.trigger], [null, null, 0, 'new_lead'])
    assert.ok(Math.abs(Date.parse(lead.occurredAt) - Date.now()) < 600_000)
  }
  // a change makes the lead newer, and leaves its id
  const before = leads.find(({ href }) => href === hrefOf('place'))
  await seedLeads(opened, [{ href: hrefOf('place'), postalCode: '78701', price: 5, fullAddress: '1 Street' }])
  const [after] = await sample(user)
  assert.deepEqual(
    [after?.id, after?.occurredAt, after?.price, after?.fullAddress],
    [before?.id, before?.occurredAt, 5, '1 Street'],
  )
})

test('a lead last seen before the maximum age is not shown', async () => {
  const user = await importUser('stale@example.com', [{ type: 'zipcode', value: '60601', radius: 0 }])
  await seedLeads(opened, [{ href: hrefOf('long-ago'), postalCode: '60601' }], 31)
  assert.match((await sample(user))[0]?.href ?? '', /^https:\/\/listings\.example\//)
  await seedLeads(opened, [{ href: hrefOf('long-ago'), postalCode: '60601' }])
  assert.deepEqual(
    (await sample(user)).map(({ href }) => href),
    [hrefOf('long-ago')],
  )
})

// Samples relied on the import, which was once kept as long as one of its listings.
test('a lead whose import was pruned is still a sample', async () => {
  await opened.pool.query('delete from imports')
  const [lead] = await sample(await importUser('late@example.com', [{ type: 'zipcode', value: '78701', radius: 0 }]))
  assert.deepEqual([lead?.href, Number.isNaN(Date.parse(lead?.occurredAt ?? ''))], [hrefOf('place'), false])
})
