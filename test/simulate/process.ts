/**
 * A process of a simulated run: its clock, its way to the ledger and to the receiver, and what it told. It may be killed or frozen at any
 * moment.
 */
import type { Clock } from '../../src/base/clock.ts'
import { LeadpushError } from '../../src/base/errors.ts'
import { sendAttempt } from '../../src/deliveries/attempt.ts'
import type { RecordedAttempt } from '../../src/deliveries/ledger.ts'
import type { HttpOutcome } from '../../src/http/exchange.ts'
import type { PushLine } from '../../src/index.ts'
import { carryOut, type PushEnd, type PushRequest, type PushSettings } from '../../src/push/run-push.ts'
import type { Random } from '../chaos/random.ts'
import type { LedgerModel } from './ledger-model.ts'
import { modelLedger, type Way } from './model-ledger.ts'
import type { SimulatedReceiver } from './receiver.ts'
import { type Census, takeCensus } from './said-is-so.ts'
import type { Timer, World } from './world.ts'

class Absence extends Error {}

/** What becomes of a statement that reaches the database. */
export type Fate = 'answered' | 'away' | 'lost'

export interface Surroundings {
  world: World
  random: Random
  model: LedgerModel
  receiver: SimulatedReceiver
  /** Asked for each statement, which a push sends. */
  fate(push: number, statement: string): Fate
  tell(text: () => string): void
}

export type End = { is: 'ended'; end: PushEnd } | { is: 'failed'; error: unknown } | { is: 'killed' }

function describeEnd(end: End): string {
  if (end.is === 'killed') return 'killed'
  return end.is === 'failed' ? String(end.error) : `ok ${end.end.ok}, came to its end ${end.end.cameToEnd}`
}

export class SimulatedProcess {
  readonly nth: number
  readonly request: PushRequest
  readonly accept: boolean
  readonly settings: PushSettings & { awayMs: number }
  readonly lines: PushLine[] = []
  readonly notes: string[] = []
  readonly startMs: number
  end: End | undefined
  endMs: number | undefined
  private runId: number | undefined
  /** Keys of deliveries that it had begun, and had under way when it ended. */
  leftUnderWay: string[] = []
  /** Who was owed a subscription push when it ended, and since when. */
  owedAtEnd: { id: number; owedAt: number }[] = []
  /** The database has recorded the end of its run. */
  hasRecordedEnd = false
  /** Tries that may have been granted, and were not made: the answer was lost, or another process had a try by then. */
  unmadeTries = 0
  /** The receiver counted as in trouble when it began. */
  readonly foundTrouble: boolean
  /** When it began, and when it had ended. */
  readonly censusBefore: Census
  censusAfter: Census | undefined
  wasStopped = false
  private readonly around: Surroundings
  private readonly stopping = new AbortController()
  private isDead = false
  private frozenUntil = 0
  private awaySince: number | undefined
  private wokeAt = 0

  constructor(
    nth: number,
    around: Surroundings,
    {
      request,
      accept,
      settings,
    }: { request: PushRequest; accept: boolean; settings: PushSettings & { awayMs: number } },
  ) {
    this.nth = nth
    this.around = around
    this.request = request
    this.accept = accept
    this.settings = settings
    this.startMs = around.world.now
    const { model } = around
    const { http } = this
    this.foundTrouble = model.state.receivers.get(settings.receiverUrl)?.troubleSince != null
    this.censusBefore = takeCensus(model.state)
    const wire = {
      // what a push sends is an attempt that it has recorded
      send: (request: Parameters<typeof sendAttempt>[2]) =>
        sendAttempt(
          this.httpFor(request as RecordedAttempt & typeof request),
          settings,
          request,
          () => around.world.now,
        ),
      head: () => http.head(settings.receiverUrl, Math.min(settings.timeoutMs, 5_000)),
    }
    const nothing = () => {}
    const push = carryOut({
      ledger: modelLedger(model, this.way),
      wire,
      clock: this.clock,
      settings,
      request,
      accept,
      reporter: {
        waits: nothing,
        pace: nothing,
        total: nothing,
        attempt: nothing,
        line: (line) => {
          this.lines.push(line)
          around.tell(() => `  ${nth} says ${JSON.stringify(line)}`)
        },
        note: (text) => {
          this.notes.push(text)
          around.tell(() => `  ${nth} notes ${text}`)
        },
      },
      stop: this.stopping.signal,
    })
    push.then(
      (end) => this.noteEnd({ is: 'ended', end }),
      (error) => this.noteEnd({ is: 'failed', error }),
    )
  }

  private noteEnd(end: End): void {
    if (this.end) return
    this.end = end
    this.around.tell(() => `  ${this.nth} is over: ${describeEnd(end)}`)
    const { users, deliveries, workers } = this.around.model.state
    this.censusAfter = takeCensus(this.around.model.state)
    this.leftUnderWay = [...deliveries.values()]
      .filter(
        (it) =>
          it.runId === this.runId &&
          it.status === 'pending' &&
          it.underWay &&
          !workers.has(it.workerId ?? 0) &&
          users.has(it.userId),
      )
      .map(({ key }) => key)
    this.owedAtEnd = [...users.values()]
      .filter(({ subscribed, owedAt, places }) => subscribed && owedAt !== null && places.length > 0)
      .map(({ id, owedAt }) => ({ id, owedAt: owedAt as number }))
    this.endMs ??= this.around.world.now
    this.isDead = true
  }

  get isOver(): boolean {
    return this.end !== undefined
  }

  stop(): void {
    if (this.isDead) return
    this.wasStopped = true
    this.stopping.abort()
  }

  kill(): void {
    if (this.isDead) return
    this.noteEnd({ is: 'killed' })
  }

  freeze(forMs: number): void {
    if (this.isDead) return
    this.frozenUntil = Math.max(this.frozenUntil, this.around.world.now + forMs)
  }

  /** What comes to the process: nothing once it is dead, and all at once when it is thawed. */
  private deliver(call: () => void, timer?: Timer): void {
    const { world } = this.around
    if (this.isDead) return
    if (world.now < this.frozenUntil) world.at(this.frozenUntil, () => this.deliver(call, timer), timer)
    else call()
  }

  private after(ms: number, call: () => void, timer?: Timer): void {
    this.around.world.after(ms, () => this.deliver(call, timer), timer)
  }

  private readonly clock: Clock = {
    now: () => this.around.world.now,
    after: (ms, call) => {
      const timer: Timer = { isOff: false }
      // Node.js knows whole milliseconds
      this.after(Math.max(1, Math.trunc(ms)), call, timer)
      return timer
    },
    every: (ms, call) => {
      const timer: Timer = { isOff: false }
      const again = () => {
        this.after(ms, again, timer)
        call()
      }
      this.after(ms, again, timer)
      return timer
    },
    cancel: (timer) => {
      if (timer) (timer as Timer).isOff = true
    },
    soon: (call) => {
      const timer: Timer = { isOff: false }
      this.around.world.soon(() => this.deliver(call, timer), timer)
      return timer
    },
    cancelSoon: (timer) => {
      ;(timer as Timer).isOff = true
    },
  }

  private readonly way: Way = {
    call: <T>(name: string, statement: () => T) =>
      new Promise<T>((resolve, reject) => {
        const { world, random, fate, tell } = this.around
        const ms = 0.2 + 4 * random.next() ** 3
        world.after(ms, () => {
          // what was sent before a process died is carried out, or not
          if (this.isDead && random.chance(0.5)) return
          const what = fate(this.nth, name)
          tell(() => `  ${this.nth} ${name} ${what}`)
          const fail = () => this.deliver(() => reject(new Absence(what)))
          if (what === 'away') return fail()
          let answer: T
          try {
            answer = statement()
          } catch (error) {
            return this.deliver(() => reject(error))
          }
          if (name === 'end') this.hasRecordedEnd = answer as boolean
          if (name === 'start') this.runId = (answer as { id: number }).id
          if (name === 'takeTry' ? what === 'lost' : name === 'giveTryBack' && !answer) this.unmadeTries++
          if (what === 'lost') fail()
          else if (random.chance(0.7)) this.deliver(() => resolve(answer))
          else this.after(3 * random.next(), () => resolve(answer))
        })
      }),
    rideOut: async (work) => {
      const { world, random } = this.around
      let isRepeat = false
      for (let pauseMs = 100; ; pauseMs *= 2) {
        const triedMs = world.now
        try {
          const result = await work(isRepeat)
          this.awaySince = undefined
          return result
        } catch (error) {
          if (!(error instanceof Absence)) throw error
          this.awaySince ??= world.now
          // as in `patience.ts`: a process that was frozen meets failures of before
          if (triedMs - this.awaySince >= this.settings.awayMs) throw new LeadpushError('database', 'away')
          isRepeat = true
        }
        const mostMs = Math.max(100, Math.min(2_000, this.settings.awayMs / 10))
        const ms = Math.min(pauseMs * (1 + random.next()), mostMs)
        const dueMs = world.now + ms
        await new Promise<void>((resolve) => this.after(ms, resolve))
        if (this.awaySince !== undefined) this.awaySince += world.now - Math.max(dueMs, this.wokeAt)
        this.wokeAt = world.now
      }
    },
  }

  private readonly httpFor = ({ attempt: nth }: RecordedAttempt) => ({
    ...this.http,
    post: (post: Parameters<SimulatedReceiver['post']>[1]) =>
      new Promise<HttpOutcome>((resolve) => {
        this.around.receiver.post({ push: this.nth, nth }, post, (outcome, attempt) =>
          this.deliver(() => {
            attempt.toldMs = this.around.world.now
            attempt.told = outcome
            resolve(outcome)
          }),
        )
      }),
  })

  private readonly http = {
    post: () => Promise.reject(new Error('only attempts are posted')),
    head: (_url: string, timeoutMs: number) =>
      new Promise<HttpOutcome>((resolve) => {
        this.around.receiver.head(timeoutMs, (outcome) => this.deliver(() => resolve(outcome)))
      }),
    get: () => Promise.reject(new Error('nothing is got')),
    delete: () => Promise.reject(new Error('nothing is deleted')),
    close: () => Promise.resolve(),
  }
}
