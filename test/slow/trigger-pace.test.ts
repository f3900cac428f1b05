/** The pace of triggers to one host (contract 6.5), by the clock; all else of it is simulated. */
import assert from 'node:assert/strict'
import { after, beforeEach, test } from 'node:test'
import { triggersPerHostSecondMax } from '../../src/base/limits.ts'
import { hostOf } from '../../src/triggers/host-pace.ts'
import { createDatabase } from '../support/database.ts'
import { startHookReceiver } from '../support/hook-receiver.ts'
import { addHook, noTriggers, runTrigger } from '../support/hooks.ts'
import { seedLeads, seedUsers } from '../support/seed.ts'

const database = await createDatabase()
const opened = await database.open()
const platforms = [await startHookReceiver(), await startHookReceiver()] as const
after(() => Promise.all(platforms.map((platform) => platform.close())))
await seedUsers(opened.db, [{ email: 'user@example.com' }])
let names = 0

beforeEach(() => opened.pool.query('delete from hooks'))

const addLeads = (count: number) =>
  seedLeads(
    opened,
    Array.from({ length: count }, () => ({ href: `https://listings.example.com/${++names}` })),
  )

test(`a host, with any port, gets at most ${triggersPerHostSecondMax} in any second, over runs that follow each other`, async () => {
  for (let n = 0; n < 20; n++) {
    await addHook(opened, 'user@example.com', platforms[n % 2 === 0 ? 0 : 1].url(`/${n}`))
  }
  for (let run = 0; run < 2; run++) {
    await addLeads(2)
    assert.deepEqual((await runTrigger(opened)).counts, { ...noTriggers, due: 40, delivered: 40 })
  }
  const times = platforms.flatMap(({ calls }) => calls.map(({ atMs }) => atMs)).sort((a, b) => a - b)
  assert.equal(times.length, 80)
  // between the first and the last are 79 gaps
  assert.ok((times.at(-1) ?? 0) - (times[0] ?? 0) >= 79 * (1_000 / triggersPerHostSecondMax))
})

test('a host is a name or an address, in any spelling and with any port', () => {
  for (const [url, host] of [
    ['https://Hooks.Example.com./a?b', 'hooks.example.com'],
    ['https://hooks.example.com:8443/', 'hooks.example.com'],
    ['https://0x5db8d70e/', '93.184.215.14'],
    ['https://[2606:2800:0::1]:444/', '[2606:2800::1]'],
    ['https://b%C3%BCcher.example/', 'xn--bcher-kva.example'],
    ['no URL', ''],
  ]) {
    assert.equal(hostOf(url ?? ''), host)
  }
})
