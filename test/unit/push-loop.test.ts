/** The loop around a push, on the model of the ledger, with a clock that the test turns and a pace that it gives. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Clock } from '../../src/base/clock.ts'
import { Worker } from '../../src/db/leases.ts'
import type { AttemptOutcome } from '../../src/deliveries/attempt.ts'
import type { RecordedAttempt } from '../../src/deliveries/ledger.ts'
import type { PushLine } from '../../src/index.ts'
import { PushLoop } from '../../src/push/attempts/loop.ts'
import type { LoopContext } from '../../src/push/attempts/loop-context.ts'
import type { ReceiverStore } from '../../src/push/ledger.ts'
import { Receiver } from '../../src/push/receiver/receiver.ts'
import { RunRecords } from '../../src/push/run/run-records.ts'
import { PlannedPushes } from '../../src/push/whom/planned-pushes.ts'
import { UserCount } from '../../src/push/whom/user-count.ts'
import { LedgerModel } from '../simulate/ledger-model.ts'
import { modelLedger, type Way } from '../simulate/model-ledger.ts'
import { collectingReporter } from '../support/push-reporter.ts'

/** All that needs no time. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve))
}

class TurnedClock implements Clock {
  private nowMs = 0
  private timers: { at: number; everyMs?: number; call: () => void }[] = []

  now(): number {
    return this.nowMs
  }

  after(ms: number, call: () => void): object {
    return this.add({ at: this.nowMs + ms, call })
  }

  every(ms: number, call: () => void): object {
    return this.add({ at: this.nowMs + ms, everyMs: ms, call })
  }

  private add(timer: (typeof this.timers)[number]): object {
    this.timers.push(timer)
    return timer
  }

  cancel(timer: object | undefined): void {
    this.timers = this.timers.filter((one) => one !== timer)
  }

  soon(call: () => void): object {
    return setImmediate(call)
  }

  cancelSoon(turn: object): void {
    clearImmediate(turn as NodeJS.Immediate)
  }

  async turn(ms: number): Promise<void> {
    const untilMs = this.nowMs + ms
    for (;;) {
      await settle()
      const [next] = this.timers.toSorted((a, b) => a.at - b.at)
      if (next === undefined || next.at > untilMs) break
      this.nowMs = next.at
      if (next.everyMs === undefined) this.cancel(next)
      else next.at += next.everyMs
      next.call()
    }
    this.nowMs = untilMs
  }
}

const taken: AttemptOutcome = {
  ...{ ok: true, maybeArrived: false, httpStatus: 200, error: null, durationMs: 1 },
  ...{ retryAfterMs: null, acceptsGzip: false },
}

interface Start {
  clock: TurnedClock
  users: number
  concurrency: number
  /** Waits before a statement of that name is carried out. */
  gate?(statement: string): Promise<void> | undefined
  take?: Receiver['take']
  /** The statement that finds the database away once. */
  absent?: string
  retryDelayMs?: number
}

/** A loop that serves its users one by one, with answers that the test gives. */
async function start({ clock, users, concurrency, gate = () => undefined, take, absent, retryDelayMs = 0 }: Start) {
  const model = new LedgerModel(() => clock.now())
  const statements: string[] = []
  const lines: PushLine[] = []
  const notes: string[] = []
  const reporter = collectingReporter(lines, notes)
  const way: Way = {
    async call(what, statement) {
      statements.push(what)
      await gate(what)
      if (what === absent && statements.indexOf(what) === statements.length - 1) throw new Error(`no answer to ${what}`)
      return statement()
    },
    rideOut: (work) => (absent === undefined ? work(false) : work(false).catch(() => work(true))),
  }
  const ledger = modelLedger(model, way)
  for (let id = 1; id <= users; id++)
    model.addUser({ id, email: `${id}@example.com`, receiverKey: 'k', homeKey: '1', subscribed: true, places: ['1'] })
  const answers: ((outcome: AttemptOutcome) => void)[] = []
  const wire = {
    send: () => new Promise<AttemptOutcome>((resolve) => answers.push(resolve)),
    head: () => assert.fail('no sign of life is asked for'),
  }
  const worker = await Worker.start(ledger, 600_000, clock)
  const { id: runId, ...started } = await ledger.runs.start({
    ...{ command: 'user', resumable: false, timeZone: 'UTC', maxLeadAgeMs: 1, workerIds: worker.ids },
  })
  const run = { id: runId, ...started }
  const { signal: stop } = new AbortController()
  const receiver = new Receiver({
    row: ledger.receiver('http://receiver.example', 1),
    ...{ wire, clock, reporter, heeds: false, accepts: false, isOfFailed: false, tellsAgain: false },
    settings: {
      outageMs: 0,
      compress: 'off',
      ratePerSecond: undefined,
      retryDelayMs: 0,
    },
  })
  if (take) receiver.take = take
  const settings = { dataSource: 'leads', concurrency, sameHouse: 'each', retryDelayMs } as const
  const onHeld = () => assert.fail('nobody is held back')
  const planned = new PlannedPushes({ ledger, worker, run, settings, reporter, stop, onHeld })
  const context: LoopContext = {
    ...{ ledger, wire, clock, reporter, settings, worker, run, planned, receiver, stop },
    ...{ users: new UserCount(), scope: { takeover: 'own', owedOnly: false } },
    ...{ slots: { atOnce: concurrency }, draw: async () => [] },
    records: new RunRecords(ledger.runs, worker, runId),
  }
  const loop = new PushLoop(context, planned.ofUsers([...model.state.users.values()], 'single'))
  const count = (what: string) => statements.filter((statement) => statement === what).length
  return { ending: loop.run(), answers, count, lines, notes, worker }
}

// The pace's first timer stood: what an answer let go sooner waited for up to a minute.
test('once an answer lets the next attempt go sooner than it looked before, it goes then', async () => {
  const clock = new TurnedClock()
  let nextAt = Number.NEGATIVE_INFINITY
  const take = ([next]: readonly RecordedAttempt[]) => {
    if (next === undefined || clock.now() < nextAt) return nextAt - clock.now()
    nextAt = clock.now() + 50_000
    return next
  }
  const { answers, ending, worker } = await start({ clock, users: 2, concurrency: 2, take })
  await clock.turn(1_000)
  assert.equal(answers.length, 1)

  nextAt = clock.now() + 100
  answers[0]?.(taken)
  await clock.turn(99)
  assert.equal(answers.length, 1)
  await clock.turn(1)
  await settle()
  assert.equal(answers.length, 2)
  answers[1]?.(taken)
  await clock.turn(1_000)
  assert.deepEqual(await ending, { is: 'done' })
  await worker.stop()
})

for (const [retryDelayMs, retryAfterMs] of [
  [0, 5_000],
  [5_000, 1_000],
  [5_000, null],
] as const) {
  test(`with a retry delay of ${retryDelayMs} ms, and ${retryAfterMs} ms asked for, a second attempt waits for the longer`, async () => {
    const clock = new TurnedClock()
    const { answers, ending, worker } = await start({ clock, users: 1, concurrency: 1, retryDelayMs })
    await settle()
    answers[0]?.({ ...taken, ok: false, httpStatus: 429, error: 'HTTP 429', retryAfterMs })
    await clock.turn(4_999)
    assert.equal(answers.length, 1)
    await clock.turn(10)
    assert.equal(answers.length, 2)
    answers[1]?.(taken)
    await clock.turn(1_000)
    assert.deepEqual(await ending, { is: 'done' })
    await worker.stop()
  })
}

test('outcomes wait shortly for others, and those that come meanwhile go with the next statement, all together', async () => {
  const clock = new TurnedClock()
  let open = () => {}
  const gate = (what: string) =>
    what === 'recordOutcomes' ? new Promise<void>((resolve) => (open = resolve)) : undefined
  const { answers, count, lines, ending, worker } = await start({ clock, users: 4, concurrency: 4, gate })
  await clock.turn(1_000)
  assert.equal(answers.length, 4)

  answers[0]?.(taken)
  await clock.turn(49)
  assert.equal(count('recordOutcomes'), 0)
  await clock.turn(2)
  for (const nth of [1, 2]) answers[nth]?.(taken)
  await clock.turn(1_000)
  assert.deepEqual([count('recordOutcomes'), lines.length], [1, 0])
  open()
  await clock.turn(52)
  assert.deepEqual([count('recordOutcomes'), lines.length], [2, 1])
  open()
  answers[3]?.(taken)
  await settle()
  assert.deepEqual([count('recordOutcomes'), lines.length], [3, 3])
  open()
  await clock.turn(1_000)
  assert.deepEqual([await ending, lines.length], [{ is: 'done' }, 4])
  await worker.stop()
})

test('a statement that begins pushes takes outcomes along', async () => {
  const clock = new TurnedClock()
  const { answers, count, lines, ending, worker } = await start({ clock, users: 3, concurrency: 1 })
  await clock.turn(1_000)
  answers[0]?.(taken)
  await settle()
  assert.deepEqual([count('recordPushes'), count('recordOutcomes'), lines.length], [3, 0, 1])
  answers[1]?.(taken)
  await settle()
  answers[2]?.(taken)
  await clock.turn(1_000)
  assert.deepEqual(await ending, { is: 'done' })
  await worker.stop()
})

test('if recording fails for good the loop fails, but still makes what is under way, and records it where that is possible', async () => {
  const clock = new TurnedClock()
  let tries = 0
  const gate = (what: string) => {
    if (what !== 'recordOutcomes' || ++tries > 2) return undefined
    return Promise.reject(new Error('away'))
  }
  const { answers, lines, ending, worker } = await start({ clock, users: 3, concurrency: 3, gate })
  const failing = assert.rejects(ending, /away/)
  await clock.turn(1_000)
  answers[0]?.(taken)
  await clock.turn(100)
  assert.deepEqual([tries, lines.length], [2, 0])
  for (const nth of [1, 2]) answers[nth]?.(taken)
  await clock.turn(2_000)
  await failing
  assert.equal(lines.length, 3)
  await worker.stop()
})

for (const absent of ['recordPushes', 'recordOutcomes', 'recordDue', 'endAbandoned', 'findNextDue']) {
  test(`if the database is away at ${absent}, the push goes on`, async () => {
    const clock = new TurnedClock()
    const { answers, lines, ending, worker } = await start({ clock, users: 1, concurrency: 1, absent })
    await clock.turn(1_000)
    answers[0]?.(taken)
    await clock.turn(1_000)
    assert.deepEqual(await ending, { is: 'done' })
    assert.equal(lines.length, 1)
    await worker.stop()
  })
}

test('a trouble that time alone shows, and that nobody can be told, fails the push, and not the process', async () => {
  const clock = new TurnedClock()
  const unasked = () => assert.fail('nobody asks')
  const tell: ReceiverStore['tell'] = async ({ says }) =>
    says === 'trouble' ? Promise.reject(new Error('away')) : true
  const receiver = new Receiver({
    ...{
      row: { begin: unasked, read: unasked, tell },
      clock,
      heeds: true,
      accepts: false,
      isOfFailed: false,
      tellsAgain: false,
      reporter: collectingReporter([], []),
    },
    wire: { send: unasked, head: unasked },
    settings: { outageMs: 1_000, compress: 'off', ratePerSecond: undefined, retryDelayMs: 0 },
  })
  const attempt = { idempotencyKey: 'k', attempt: 1, gzip: false } as RecordedAttempt
  await receiver.note(attempt, { ...taken, ok: false, httpStatus: 429, error: 'HTTP 429', retryAfterMs: 0 }, false)
  await clock.turn(1_000)
  await assert.rejects(receiver.ask({ open: 0 }), /away/)
})
