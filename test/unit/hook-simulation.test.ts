/**
 * Three days of hundreds of hooks in virtual time (contract 6.4, 6.5): the lanes, the states and the pace of hosts as a run uses them,
 * with hooks that fail now and then, hang, ask for pauses, or are dead. Runs begin every five minutes where something is due.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as nextTick } from 'node:timers/promises'
import { triggerPausesMs, triggersAtOnceMax, triggerTimeoutMs } from '../../src/base/limits.ts'
import { HookLanes, type Lane } from '../../src/triggers/hook-lanes.ts'
import { pauseAfter } from '../../src/triggers/hook-state.ts'
import { HostPace } from '../../src/triggers/host-pace.ts'

const hour = 3_600_000

/** A clock that goes to the next moment at which something happens, once nothing else is to be done. */
class VirtualClock {
  nowMs = 0
  private readonly waits: { atMs: number; end: () => void }[] = []

  readonly wait = (ms: number): Promise<void> =>
    new Promise((end) => {
      const atMs = this.nowMs + ms
      const place = this.waits.findIndex((other) => other.atMs > atMs)
      this.waits.splice(place < 0 ? this.waits.length : place, 0, { atMs, end })
    })

  async advance(): Promise<boolean> {
    await nextTick()
    const next = this.waits.shift()
    if (next === undefined) return false
    this.nowMs = next.atMs
    next.end()
    return true
  }
}

type Manner = 'well' | 'one in three' | 'dead' | 'hangs' | 'asks'
interface Due {
  dueMs: number
  attempts: number
  id: number
}
interface SimulatedHook {
  id: string
  url: string
  manner: Manner
  due: Due[]
  failures: number
  pausedUntilMs: number
  isUnproven: boolean
  attempts: { atMs: number; id: number; ok: boolean }[]
  peak: number
}

const answers: Record<
  Manner,
  (n: number) => { ok: boolean; ms: number; retryAfterMs: number | null; timedOut: boolean }
> = {
  well: () => ({ ok: true, ms: 50, retryAfterMs: null, timedOut: false }),
  'one in three': (n) => ({ ok: n % 3 !== 0, ms: 80, retryAfterMs: null, timedOut: false }),
  dead: () => ({ ok: false, ms: 5, retryAfterMs: null, timedOut: false }),
  hangs: () => ({ ok: false, ms: triggerTimeoutMs, retryAfterMs: null, timedOut: true }),
  asks: (n) => ({ ok: n % 5 !== 0, ms: 20, retryAfterMs: n % 5 === 0 ? 30 * 60_000 : null, timedOut: false }),
}

/** One run: sends until nothing is due that was so at its start; returns how long it took. */
async function run(clock: VirtualClock, hooks: readonly SimulatedHook[], starts: number[]): Promise<number> {
  const startMs = clock.nowMs
  const lanes = new HookLanes()
  const pace = new HostPace(clock.wait)
  const byId = new Map(hooks.map((hook) => [hook.id, hook]))
  const taken = new Set<Due>()
  const nextOf = (hook: SimulatedHook) => hook.due.find((due) => due.dueMs <= startMs && !taken.has(due))
  const waiting = hooks.filter((hook) => hook.pausedUntilMs <= startMs && nextOf(hook) !== undefined)
  waiting.sort((a, b) => Number(a.isUnproven) - Number(b.isUnproven))
  let underWay = 0
  let paceMs = 0

  async function send(lane: Lane, hook: SimulatedHook, due: Due): Promise<void> {
    const end = lanes.begin(lane, `${due.id}`)
    await pace.waitForTurn(lane.host)
    if (lane.state !== 'due') {
      taken.delete(due)
      end()
      lane.inHand.delete(`${due.id}`)
      return
    }
    lanes.send(lane, clock.nowMs)
    starts.push(clock.nowMs)
    underWay++
    assert.ok(underWay <= triggersAtOnceMax)
    hook.peak = Math.max(hook.peak, lane.inHand.size)
    const answer = answers[hook.manner](hook.attempts.length)
    hook.attempts.push({ atMs: clock.nowMs, id: due.id, ok: answer.ok })
    await clock.wait(answer.ms)
    underWay--
    end()
    lane.inHand.delete(`${due.id}`)
    lane.isUnproven = hook.isUnproven = answer.timedOut
    lane.hasAnswered ||= !answer.timedOut
    lane.failures = hook.failures = answer.ok ? 0 : lane.failures + 1
    const pauseMs = answer.ok ? null : pauseAfter(answer, lane.failures)
    lanes.happen(lane, answer.ok ? 'delivered' : pauseMs === null ? 'failed' : 'stalled')
    if (pauseMs !== null) hook.pausedUntilMs = clock.nowMs + pauseMs
    const delayMs = triggerPausesMs[due.attempts++]
    if (answer.ok || delayMs === undefined) hook.due.splice(hook.due.indexOf(due), 1)
    else due.dueMs = clock.nowMs + Math.max(delayMs, answer.retryAfterMs ?? 0)
  }

  for (;;) {
    while (lanes.hooksRoom > 0 && waiting.length > 0) {
      const hook = waiting.shift() as SimulatedHook
      lanes.add([{ ...hook, integrationId: 1 }])
    }
    for (const lane of lanes.findReady(clock.nowMs)) {
      const hook = byId.get(lane.id) as SimulatedHook
      const due = nextOf(hook)
      if (due === undefined) {
        lanes.happen(lane, 'emptied')
        continue
      }
      taken.add(due)
      void send(lane, hook, due)
    }
    lanes.letGoDone(clock.nowMs)
    if (lanes.all.length === 0 && waiting.length === 0) return clock.nowMs - startMs
    const nextMs = clock.nowMs + lanes.untilNextMs(clock.nowMs)
    // one wait at a time for the pace
    if (Number.isFinite(nextMs) && (paceMs <= clock.nowMs || nextMs < paceMs)) {
      paceMs = nextMs
      void clock.wait(nextMs - clock.nowMs)
    }
    assert.ok(await clock.advance(), 'the run waits for nothing')
  }
}

test('over three days no limit is passed, hooks that misbehave delay nobody, and one that fails now and then is served', async () => {
  const manners: Manner[] = ['well', 'well', 'well', 'well', 'one in three', 'dead', 'hangs', 'asks']
  const hooks = Array.from({ length: 320 }, (_, n): SimulatedHook => {
    const manner = manners[n % manners.length] ?? 'well'
    // some share a host
    const host = n < 60 ? 'busy' : `h${n}`
    return { id: `${n}`, url: `https://${host}.example.com/${n}`, manner, due: [], failures: 0, pausedUntilMs: 0, isUnproven: true, attempts: [], peak: 0 } // biome-ignore format: a row
  })
  const clock = new VirtualClock()
  const starts: number[] = []
  const imports: number[] = []
  for (let atMs = 0, id = 0; atMs < 72 * hour; atMs += 8 * hour) {
    clock.nowMs = Math.max(clock.nowMs, atMs)
    imports.push(clock.nowMs)
    for (const hook of hooks) for (let n = 0; n < 3; n++) hook.due.push({ dueMs: clock.nowMs, attempts: 0, id: ++id })
    // a run every five minutes for an hour, then every half hour
    for (let next = clock.nowMs; next < atMs + 8 * hour; next += next < atMs + hour ? 5 * 60_000 : 30 * 60_000) {
      clock.nowMs = Math.max(clock.nowMs, next)
      await run(clock, hooks, starts)
    }
  }
  for (const hook of hooks) {
    const { manner, attempts, peak } = hook
    assert.ok(peak <= 2)
    for (const [at, { atMs }] of attempts.entries()) {
      if (at > 0) assert.ok(atMs - (attempts[at - 1]?.atMs ?? 0) >= 100 - 1e-6, `hook ${hook.id}: ${manner}`)
    }
    const delivered = attempts.filter(({ ok }) => ok)
    assert.equal(new Set(delivered.map(({ id }) => id)).size, delivered.length)
    if (manner === 'well') {
      assert.equal(delivered.length, 27)
      // whatever the others do, within a minute and a half after its import
      assert.ok(attempts.every(({ atMs }) => imports.some((importMs) => atMs >= importMs && atMs < importMs + 90_000)))
    }
    if (manner === 'one in three' || manner === 'asks') assert.equal(delivered.length + hook.due.length, 27)
    if (manner === 'one in three') assert.ok(delivered.length >= 24, `${delivered.length}`)
    if (manner === 'dead' || manner === 'hangs') assert.equal(delivered.length, 0)
  }
  // one that hangs costs a run one attempt at most; a dead one has 5 in a row, then one a run
  for (const { manner, attempts } of hooks) {
    const first = attempts.filter(({ atMs }) => atMs < 5 * 60_000).length
    if (manner === 'hangs') assert.equal(first, 1)
    if (manner === 'dead') assert.equal(first, 3)
  }
  const busy = hooks.slice(0, 60).flatMap(({ attempts }) => attempts.map(({ atMs }) => atMs)).sort((a, b) => a - b) // biome-ignore format: one
  for (const [at, atMs] of busy.entries()) assert.ok((busy[at + 30] ?? Number.POSITIVE_INFINITY) - atMs >= 1_000)
  assert.ok(starts.length > 5_000, `${starts.length}`)
})
