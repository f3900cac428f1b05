/** Planned pushes on the model of the ledger: anew after an erasure, and whose users they keep from other processes. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { systemClock } from '../../src/base/clock.ts'
import { Worker } from '../../src/db/leases.ts'
import type { Ledger } from '../../src/push/ledger.ts'
import type { Pass, UserToServe } from '../../src/push/whom/pass.ts'
import {
  PlannedPushes,
  type PlannedPushesContext,
  plannedMax,
  type UserPush,
} from '../../src/push/whom/planned-pushes.ts'
import { LedgerModel } from '../simulate/ledger-model.ts'
import { claimKey } from '../simulate/ledger-state.ts'
import { markOf, modelLedger } from '../simulate/model-ledger.ts'
import { collectingReporter } from '../support/push-reporter.ts'

const nobody = () => assert.fail('nobody is held back')
const planOn = (
  ledger: Ledger,
  worker: Worker,
  { concurrency = 4, onHeld = nobody }: { concurrency?: number; onHeld?: PlannedPushesContext['onHeld'] } = {},
) =>
  new PlannedPushes({
    ...{ ledger, worker, reporter: collectingReporter([], []), stop: new AbortController().signal },
    run: { id: 1, period: '2026-W10', seenSince: new Date(0), otherTimeZone: undefined, forcedBy: 1 },
    settings: { dataSource: 'leads', concurrency, sameHouse: 'each' },
    onHeld,
  })

test('pushes are planned anew all at once: under their keys, without what was erased', async (t) => {
  const model = new LedgerModel(() => 0)
  const asked: string[] = []
  const ledger = modelLedger(model, {
    call: async (what, statement) => {
      asked.push(what)
      return statement()
    },
    rideOut: (work) => work(false),
  })
  const [erased, kept] = [model.addListing('1', '{"n":1}'), model.addListing('1', '{"n":2}')]
  for (const id of [1, 2, 3])
    model.addUser({ id, email: `${id}@example.com`, receiverKey: 'k', homeKey: '1', subscribed: true, places: ['1'] })
  const worker = await Worker.start(ledger, 60_000, systemClock)
  t.after(() => worker.stop())
  const planned = planOn(ledger, worker)
  const pushes: UserPush[] = []
  const users = [...model.state.users.values()]
  for await (const push of planned.ofUsers(users, 'subscription')) pushes.push(push)
  model.erase(erased)
  asked.length = 0
  const again = await planned.again(pushes, model.state.erasures)

  const keysOf = (some: readonly UserPush[]) => some.map(({ deliveries }) => deliveries[0]?.idempotencyKey)
  const leadsOf = (some: readonly UserPush[]) =>
    some.map(({ deliveries }) => deliveries.flatMap(({ contents }) => contents.map(({ versionId }) => versionId)))
  assert.deepEqual(
    leadsOf(pushes),
    users.map(() => [kept, erased]),
  )
  assert.deepEqual(
    leadsOf(again),
    users.map(() => [kept]),
  )
  assert.deepEqual(keysOf(again), keysOf(pushes))
  // it was a list of its own for each user
  assert.equal(asked.filter((what) => what === 'findQueries').length, 1)
})

test('users who are read and not begun yet, or held back, stay with the process that has read them', async (t) => {
  const model = new LedgerModel(() => 0)
  const ledger = modelLedger(model, { call: async (_what, statement) => statement(), rideOut: (work) => work(false) })
  model.addListing('1', '{"n":1}')
  for (let id = 1; id <= 1_600; id++)
    model.addUser({ id, email: `${id}@example.com`, receiverKey: 'k', homeKey: '1', subscribed: true, places: ['1'] })
  const [worker, other] = [await Worker.start(ledger, 60_000, systemClock), await Worker.start(ledger, 60_000, systemClock)]
  t.after(() => Promise.all([worker.stop(), other.stop()]))
  const concurrency = 16
  const held: string[] = []
  const fell = '7@example.com'
  model.state.claims.set(claimKey('weekly:2026-W09', fell), { claimedAt: 0, leads: 200, queriesMark: markOf(['1']) })
  const onHeld = ({ email }: UserToServe) => {
    held.push(email)
    return 'held' as const
  }
  const planned = planOn(ledger, worker, { concurrency, onHeld })
  const pass: Pass = { kind: 'weekly', period: '2026-W10', scope: 'weekly:2026-W10', meant: { who: 'everybody' }, compared: ['weekly:2026-W09'] }
  const unbegun: string[] = []
  let read = 0
  for await (const { email } of planned.ofPass(pass, 1_600, () => Number.POSITIVE_INFINITY)) {
    unbegun.push(email)
    // as many are on their way as may be
    if (unbegun.length > plannedMax + concurrency) {
      const begun = unbegun.shift() ?? ''
      model.state.claims.set(claimKey(pass.scope, begun), { claimedAt: 0, leads: null, queriesMark: null })
    }
    if (++read % 100 > 0) continue
    const free = model.takeRange({ worker: other, pass, cursor: undefined, size: 100 }) ?? []
    assert.deepEqual(free.filter(({ email }) => unbegun.includes(email) || held.includes(email)), [], `${read} were read`)
    model.releaseRanges(other.ids, pass)
  }
  assert.deepEqual([read, held], [1_599, [fell]])
  // and are released once they are begun
  const kept = model.state.ranges.filter(({ workerId }) => worker.ids.includes(workerId))
  assert.ok(kept.length < 1_600 / 50, `${kept.length} ranges`)
}) // biome-ignore format: long lines

// It stayed taken, and nobody looked into it again.
test('a range that a statement took whose answer was lost is taken again', async (t) => {
  const model = new LedgerModel(() => 0)
  let isLost = false
  const ledger = modelLedger(model, {
    call: async (what, statement) => {
      const answer = statement()
      if (what !== 'takeRange' || isLost) return answer
      isLost = true
      throw new Error('no answer')
    },
    rideOut: (work) => work(false).catch(() => work(true)),
  })
  model.addListing('1', '{"n":1}')
  for (let id = 1; id <= 20; id++)
    model.addUser({ id, email: `${id}@example.com`, receiverKey: 'k', homeKey: '1', subscribed: true, places: ['1'] })
  const worker = await Worker.start(ledger, 60_000, systemClock)
  t.after(() => worker.stop())
  const planned = planOn(ledger, worker)
  const pass: Pass = { kind: 'weekly', period: '2026-W10', scope: 'weekly:2026-W10', meant: { who: 'everybody' }, compared: [] }
  const read = new Set<number>()
  for await (const { userId } of planned.ofPass(pass, 20, () => Number.POSITIVE_INFINITY)) read.add(userId)
  assert.deepEqual([isLost, read.size], [true, 20])
}) // biome-ignore format: long lines
