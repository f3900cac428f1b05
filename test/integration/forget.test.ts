/** The limits of an erasure (contract 4.19): how much one transaction erases, and how long it waits for what is under way. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { eraseWaitMsMax, listingsPerErasureMax } from '../../src/base/limits.ts'
import { databaseLeases, Worker } from '../../src/db/leases.ts'
import type { OpenDatabase } from '../../src/db/open.ts'
import { type ForgetPhase, forgetListings } from '../../src/upkeep/forget/forget.ts'
import { createDatabase } from '../support/database.ts'
import { addHook } from '../support/hooks.ts'
import { seedLeads, seedUsers } from '../support/seed.ts'

const open = async (t: TestContext) => await (await createDatabase(t)).open()
const hrefOf = (name: string | number) => `https://listings.example/${name}`
const stop = new AbortController().signal

/** Puts listings that have nothing but an `href` into the tables: so small that thousands lie in the stretch that one look reads. */
async function putListings({ pool }: OpenDatabase, name: string, count: number): Promise<void> {
  await pool.query(
    `with import as (insert into imports (file, base_version_id) select 'all', last_value from lead_version_ids returning id),
     listing as (
       insert into leads (href_sha256, postal_key, version_id, json_sha256, first_import_id, search)
       select sha256(convert_to($1 || n, 'UTF8')), '78704', nextval('lead_version_ids'), sha256(''), import.id, ''
       from import, generate_series(1, $2) as n returning id, version_id
     ),
     seen as (insert into lead_seen (lead_id, seen_at) select id, now() from listing)
     insert into lead_versions (id, lead_id, json) select version_id, id,
       '{"href":"' || $1 || row_number() over () || '","postalCode":"","contactName":null,"contactPhone":null,"contactEmail":null}' from listing`,
    [hrefOf(name), count],
  )
}

test(`one transaction erases ${listingsPerErasureMax} listings, and another one the rest`, async (t) => {
  const opened = await open(t)
  // the first look reads few
  await putListings(opened, 'other-', 3_500)
  for (const [count, transactions] of [
    [listingsPerErasureMax, 1],
    [listingsPerErasureMax + 1, 2],
  ] as const) {
    await putListings(opened, `${count}-`, count)
    const phases: ForgetPhase[] = []
    async function* lines() {
      for (let n = 1; n <= count; n++) yield hrefOf(`${count}-${n}`)
    }
    const options = { stop, onPhase: (phase: ForgetPhase) => void phases.push(phase) }
    const { listings } = await forgetListings(opened, { lines, once: true }, options)
    assert.deepEqual([listings, phases.filter((phase) => phase === 'erasing').length], [count, transactions])
  }
})

test('an erasure waits 20 minutes for what another process has in hand, then tells how much that is', async (t) => {
  const opened = await open(t)
  await seedUsers(opened.db, [{ email: 'user@example.com' }])
  await seedLeads(opened, [{ href: hrefOf('sent') }])
  const worker = await Worker.start(databaseLeases(opened.db), 3_600_000)
  t.after(() => worker.stop().catch(() => {}))
  const hook = await addHook(opened, 'user@example.com', 'https://hooks.example.com/1')
  await opened.pool.query(
    `insert into triggers (hook_id, version_id, kind, lead_id, occurred_at, due_at, worker_id)
     select $1, version_id, 'new_lead', id, now(), now(), $2 from leads`,
    [hook.id, worker.id],
  )
  let passedMs = 0
  const { now } = performance
  t.mock.method(performance, 'now', () => now.call(performance) + passedMs)
  let waits = 0
  const { underWay } = await forgetListings(
    opened,
    { href: hrefOf('sent') },
    {
      stop,
      onPhase(phase) {
        if (phase !== 'waiting for attempts') return
        waits++
        // a minute before the end, and just after it
        passedMs = waits === 1 ? eraseWaitMsMax - 60_000 : eraseWaitMsMax + 1
      },
    },
  )
  assert.deepEqual([underWay, waits], [1, 2])
})
