/**
 * Three days and a few hours of thousands of hooks in virtual time (contract 6.4, 6.5): the lanes, the states and the pace of hosts as a run
 * uses them, with hooks that fail now and then, hang, ask for pauses, end, or are dead. Runs begin every few minutes after an import.
 */
import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { setImmediate as nextTick } from 'node:timers/promises'
import { triggerPausesMs, triggersAtOnceMax, triggerTimeoutMs } from '../../src/base/limits.ts'
import { HookLanes, type Lane } from '../../src/triggers/hook-lanes.ts'
import { HostPace } from '../../src/triggers/host-pace.ts'

const minute = 60_000
const hour = 60 * minute
const importsEveryMs = 21 * hour
/** With runs two hours apart the whole schedule of a trigger, 74 hours and 36 minutes, is over by then. */
const endMs = 4 * importsEveryMs

/** A clock that goes to the next moment at which something happens, once nothing else is to be done. */
class VirtualClock {
  nowMs = 0
  private readonly waits = new Map<number, (() => void)[]>()

  readonly wait = (ms: number): Promise<void> =>
    new Promise((end) => {
      const atMs = this.nowMs + ms
      this.waits.set(atMs, [...(this.waits.get(atMs) ?? []), end])
    })

  async advance(): Promise<boolean> {
    if (this.waits.size === 0) return false
    this.nowMs = Math.min(...this.waits.keys())
    const ends = this.waits.get(this.nowMs) ?? []
    this.waits.delete(this.nowMs)
    for (const end of ends) end()
    await nextTick()
    return true
  }
}

interface Answer {
  ok: boolean
  ms: number
  gone?: boolean
  timedOut?: boolean
  retryAfterMs?: number | null
}

/** What each manner of hook answers to its `n`th attempt. */
const manners = {
  well: () => ({ ok: true, ms: 50 }),
  'one in three': (n) => ({ ok: n % 3 !== 0, ms: 80 }),
  dead: () => ({ ok: false, ms: 5 }),
  hangs: () => ({ ok: false, ms: triggerTimeoutMs, timedOut: true }),
  asks: (n) => (n % 5 === 0 ? { ok: false, ms: 20, retryAfterMs: 30 * minute } : { ok: true, ms: 20 }),
  ends: (n) => ({ ok: n < 2, ms: 20, gone: n >= 2 }),
} satisfies Record<string, (n: number) => Answer>
type Manner = keyof typeof manners

interface Due {
  id: number
  dueMs: number
  attempts: number
  failingSinceMs: number
}

/** A hook with what the database has of it. */
interface Hook {
  id: string
  url: string
  manner: Manner
  /** It used up the schedule of a trigger with nothing delivered meanwhile, or its platform has ended it. */
  end: 'off' | 'gone' | undefined
  due: Due[]
  failures: number
  /** Since when nothing was delivered. */
  failingSinceMs: number
  pausedUntilMs: number
  isUnproven: boolean
  attempts: { atMs: number; id: number; ok: boolean }[]
  inHandMax: number
}

const clock = new VirtualClock()
const starts: number[] = []
let underWayMax = 0
let longestRunMs = 0

/** One run: sends until nothing is due that was so at its start. */
async function run(hooks: readonly Hook[]): Promise<void> {
  const startMs = clock.nowMs
  const lanes = new HookLanes()
  const pace = new HostPace(clock.wait)
  const byId = new Map(hooks.map((hook) => [hook.id, hook]))
  const taken = new Set<Due>()
  const nextOf = (hook: Hook) => hook.due.find((due) => due.dueMs <= startMs && !taken.has(due))
  const found = hooks.filter((hook) => hook.pausedUntilMs <= startMs && nextOf(hook) !== undefined)
  found.sort((a, b) => Number(a.isUnproven) - Number(b.isUnproven))
  let underWay = 0
  let wakesAtMs = 0

  async function send(lane: Lane, hook: Hook, due: Due): Promise<void> {
    const end = lanes.begin(lane, `${due.id}`)
    await pace.waitForTurn(lane.host)
    lanes.endWait(lane, clock.nowMs)
    if (lane.state === 'due') {
      starts.push(clock.nowMs)
      underWayMax = Math.max(underWayMax, ++underWay)
      hook.inHandMax = Math.max(hook.inHandMax, lane.inHand.size)
      const answer: Answer = manners[hook.manner](hook.attempts.length)
      hook.attempts.push({ atMs: clock.nowMs, id: due.id, ok: answer.ok })
      await clock.wait(answer.ms)
      underWay--
      record(lane, hook, due, answer)
    } else taken.delete(due)
    end()
    lane.inHand.delete(`${due.id}`)
  }

  function record(
    lane: Lane,
    hook: Hook,
    due: Due,
    { ok, gone = false, timedOut = false, retryAfterMs = null }: Answer,
  ) {
    const httpStatus = timedOut ? null : ok ? 200 : gone ? 410 : 500
    const pauseMs = lanes.note(lane, { ok, gone, httpStatus, retryAfterMs, timedOut, error: null, durationMs: 0 })
    hook.isUnproven = lane.isUnproven
    hook.failures = lane.failures
    if (pauseMs !== null) hook.pausedUntilMs = clock.nowMs + pauseMs
    if (ok) hook.failingSinceMs = clock.nowMs
    due.failingSinceMs = Math.min(due.failingSinceMs, clock.nowMs)
    const delayMs = triggerPausesMs[due.attempts++]
    if (ok || gone || delayMs === undefined) hook.due.splice(hook.due.indexOf(due), 1)
    else due.dueMs = clock.nowMs + Math.max(delayMs, retryAfterMs ?? 0)
    if (gone) hook.end = 'gone'
    else if (!ok && delayMs === undefined && due.failingSinceMs >= hook.failingSinceMs) hook.end = 'off'
    if (hook.end === undefined) return
    if (hook.end === 'off') lanes.happen(lane, 'used up')
    hook.due = []
  }

  for (;;) {
    const more = lanes.size < 512 ? found.splice(0, 512) : []
    lanes.add(more.map(({ id, url, isUnproven, failures }) => ({ id, url, isUnproven, failures, integrationId: 1 })))
    for (const lane of lanes.findReady(clock.nowMs)) {
      const hook = byId.get(lane.id) as Hook
      const due = nextOf(hook)
      if (due === undefined) lanes.happen(lane, 'emptied')
      else {
        taken.add(due)
        void send(lane, hook, due)
      }
    }
    // attempts without a turn to wait for begin at this moment
    await nextTick()
    lanes.letGoDone(clock.nowMs)
    if (lanes.size === 0 && found.length === 0) break
    const nextMs = clock.nowMs + lanes.untilNextMs(clock.nowMs)
    if (Number.isFinite(nextMs) && (wakesAtMs <= clock.nowMs || nextMs < wakesAtMs)) {
      wakesAtMs = nextMs
      void clock.wait(nextMs - clock.nowMs)
    }
    assert.ok(await clock.advance(), 'the run waits for nothing')
  }
  longestRunMs = Math.max(longestRunMs, clock.nowMs - startMs)
}

const order: Manner[] = ['well', 'well', 'one in three', 'well', 'dead', 'well', 'hangs', 'well', 'asks', 'well']
const hooks = Array.from({ length: 2_400 }, (_, n): Hook => {
  const manner = n % 100 === 99 ? 'ends' : (order[n % order.length] ?? 'well')
  // some share a host
  const host = n < 120 ? 'busy' : `h${n}`
  return {
    ...{ id: `${n}`, url: `https://${host}.example.com/${n}`, manner, end: undefined, due: [], failures: 0 },
    ...{ failingSinceMs: 0, pausedUntilMs: 0, isUnproven: true, attempts: [], inHandMax: 0 },
  }
})
const of = (manner: Manner) => hooks.filter((hook) => hook.manner === manner)
const imports: number[] = []
/** Of an import most hooks get one trigger; some get three. */
const perImport = ({ id }: Hook) => (Number(id) % 8 === 0 ? 3 : 1)
const wanted = (hook: Hook) => imports.length * perImport(hook)

before(async () => {
  for (let atMs = 0, id = 0; atMs < endMs; atMs += importsEveryMs) {
    clock.nowMs = Math.max(clock.nowMs, atMs)
    imports.push(clock.nowMs)
    for (const hook of hooks) {
      if (hook.end !== undefined) continue
      for (let n = 0; n < perImport(hook); n++)
        hook.due.push({ id: ++id, dueMs: clock.nowMs, attempts: 0, failingSinceMs: Infinity })
    }
    // a run every five minutes for an hour, then every two hours
    for (let next = clock.nowMs; next < atMs + importsEveryMs; next += next < atMs + hour ? 5 * minute : 2 * hour) {
      clock.nowMs = Math.max(clock.nowMs, next)
      await run(hooks)
    }
  }
})

test('over three days no limit of the pace is passed, by any of thousands of hooks', () => {
  assert.ok(underWayMax > 48 && underWayMax <= triggersAtOnceMax, `${underWayMax} under way`)
  for (const { id, manner, attempts, inHandMax } of hooks) {
    assert.ok(inHandMax <= 2)
    for (const [at, { atMs }] of attempts.entries()) {
      if (at > 0) assert.ok(atMs - (attempts[at - 1]?.atMs ?? 0) >= 100 - 1e-6, `hook ${id}: ${manner}`)
    }
  }
  const busy = hooks.slice(0, 120).flatMap(({ attempts }) => attempts.map(({ atMs }) => atMs)).sort((a, b) => a - b) // biome-ignore format: one
  for (const [at, atMs] of busy.entries()) assert.ok((busy[at + 30] ?? Number.POSITIVE_INFINITY) - atMs >= 1_000)
  assert.ok(longestRunMs < 5 * minute && starts.length > 10_000, `${longestRunMs} ms, ${starts.length} attempts`)
})

test('hooks that fail, hang or ask for pauses delay no other: each well one has all within seconds after an import', () => {
  for (const hook of of('well')) {
    const { id, attempts } = hook
    assert.deepEqual([attempts.length, attempts.every(({ ok }) => ok)], [wanted(hook), true], `hook ${id}`)
    const lateMs = Math.max(...attempts.map(({ atMs }) => Math.min(...imports.map((importMs) => atMs - importMs).filter((ms) => ms >= 0)))) // biome-ignore format: one
    assert.ok(lateMs < 90_000, `hook ${id}: ${lateMs} ms`)
  }
})

test('a hook that refuses one in three, or asks for pauses, has everything, and each trigger once', () => {
  for (const hook of [...of('one in three'), ...of('asks')]) {
    const { id, manner, attempts, due } = hook
    const delivered = attempts.filter(({ ok }) => ok).map((attempt) => attempt.id)
    assert.deepEqual(
      [delivered.length, new Set(delivered).size, due.length],
      [wanted(hook), wanted(hook), 0],
      `${manner} ${id}`,
    )
  }
})

test('a hook that hangs costs a run one timeout; dead ones, and those alone, are switched off after three days', () => {
  for (const { attempts } of of('hangs')) assert.equal(attempts.filter(({ atMs }) => atMs < 5 * minute).length, 1)
  for (const hook of hooks) assert.equal(hook.end === 'off', hook.manner === 'dead' || hook.manner === 'hangs', `${hook.manner} ${hook.id}`) // biome-ignore format: one
  for (const { attempts } of [...of('dead'), ...of('hangs')]) {
    // the whole schedule of the trigger that was first, and no attempt after its last
    const first = attempts.filter(({ id }) => id === attempts[0]?.id)
    assert.equal(first.length, triggerPausesMs.length + 1)
    assert.ok((attempts.at(-1)?.atMs ?? 0) - (first.at(-1)?.atMs ?? 0) < minute)
  }
})

test('a hook whose platform ends it gets nothing more', () => {
  for (const { end, attempts } of of('ends')) assert.deepEqual([end, attempts.length], ['gone', 3])
})
