/** The loop around a push, on the model of the ledger, with a clock that the test turns and a pace that it gives. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Clock } from '../../src/base/clock.ts'
import { Worker } from '../../src/db/leases.ts'
import type { AttemptOutcome } from '../../src/deliveries/attempt.ts'
import type { RecordedAttempt } from '../../src/deliveries/ledger.ts'
import { PushLoop } from '../../src/push/attempts/loop.ts'
import { Receiver } from '../../src/push/receiver/receiver.ts'
import { PlannedPushes } from '../../src/push/whom/planned-pushes.ts'
import { UserCount } from '../../src/push/whom/user-count.ts'
import { plainVault } from '../../src/secrets/vault.ts'
import { LedgerModel } from '../simulate/ledger-model.ts'
import { modelLedger } from '../simulate/model-ledger.ts'
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

// The pace's first timer stood: what an answer let go sooner waited for up to a minute.
test('once an answer lets the next attempt go sooner than it looked before, it goes then', async () => {
  const clock = new TurnedClock()
  const model = new LedgerModel(() => clock.now())
  const ledger = modelLedger(model, { call: async (_what, statement) => statement(), rideOut: (work) => work(false) })
  for (const id of [1, 2])
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
  const reporter = collectingReporter([])
  const receiver = new Receiver({
    ...{ ledger, wire, clock, reporter, looksFor: 'nothing', accepts: false, tellsAgain: false },
    settings: {
      receiverUrl: 'http://receiver.example',
      outageMs: 0,
      compress: 'off',
      ratePerSecond: undefined,
      retryDelayMs: 0,
    },
  })
  let nextAt = Number.NEGATIVE_INFINITY
  receiver.pace.take = ([next]: readonly RecordedAttempt[]) => {
    if (next === undefined || clock.now() < nextAt) return nextAt - clock.now()
    nextAt = clock.now() + 50_000
    return next
  }
  const settings = { dataSource: 'leads', concurrency: 2, sameHouse: 'each', retryDelayMs: 0 } as const
  const onHeld = () => assert.fail('nobody is held back')
  const planned = new PlannedPushes({ ledger, worker, run, settings, reporter, stop, onHeld })
  const loop = new PushLoop({
    ...{
      ledger,
      wire,
      clock,
      reporter,
      settings,
      worker,
      run,
      planned,
      receiver,
      stop,
      takeover: 'own',
      vault: plainVault,
    },
    ...{ users: new UserCount(), patienceMs: Number.POSITIVE_INFINITY },
    records: { run: { runId, server: worker.server }, note: () => {} },
  })
  const ending = loop.run(planned.ofUsers([...model.state.users.values()], 'single'))
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
