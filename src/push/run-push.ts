/**
 * A run: what each form of `push` sets out to do, in which order, and how it ended. The sending itself is the loop's; how users
 * become pushes is `planned-pushes`'.
 */
import { sql } from 'kysely'
import { rideOut } from '../db/away.ts'
import { isLive, Worker, waitForLeases } from '../db/leases.ts'
import type { Database } from '../db/open.ts'
import { endFarPauses, isAnythingAbandoned, type Reach } from '../deliveries/ledger.ts'
import {
  closeInterruptedRuns,
  endRun,
  findInterruptedRuns,
  findOthersAtWork,
  type OpenRun,
  type Run,
  type RunCommand,
  recordFeed,
  startRun,
  wasHeldBefore,
} from '../deliveries/runs.ts'
import type { Http } from '../http/client.ts'
import type { SummaryLine } from '../index.ts'
import { isHeldBack, judge, type Verdict } from './guard.ts'
import { type LoopSettings, type Planned, PushLoop } from './loop.ts'
import { PlannedPushes } from './planned-pushes.ts'
import { type PushReporter, Tally, toDeliveryLine } from './reporter.ts'
import { UserCount } from './user-count.ts'
import type { UserToServe } from './users-to-serve.ts'
import {
  countServed,
  countUsersToServe,
  failedPass,
  findUsersOwedSubscription,
  findUsersWithoutQueries,
  forcedPass,
  type Pass,
  weeklyPass,
} from './users-to-serve.ts'

export interface PushSettings extends LoopSettings {
  leaseMs: number
  timeZone: string
  maxLeadAgeMs: number
  guard: 'on' | 'off'
}

export type PushRequest =
  | { what: 'all'; force: boolean; limit: number | undefined }
  | { what: 'resume' }
  | { what: 'failed'; unknown: boolean }
  /** `owedOnly`: nothing but the subscription push that is owed, or what was left of one. */
  | { what: 'user'; user: UserToServe; owed: boolean; owedOnly?: boolean }

export interface PushEnd {
  summary: SummaryLine
  /** Everything that was asked happened: no delivery ended otherwise, nobody is left that it gave up on or held back. */
  ok: boolean
  /** It was not stopped, nor held back as a whole, nor did it give up: what `status --check` looks for. */
  cameToEnd: boolean
  /** The guard held back some users, or all. */
  held: boolean
  /** `--resume` did nothing, since something is held back or down, and told of that in one line: a run before it has told. */
  toldBefore: boolean
  stopped: boolean
}

/** Who sends what is owed alone holds one of few places: a longer pause before a second attempt is not waited for in it. */
const owedPatienceMs = 2_000

class PushRun {
  private readonly db: Database
  private readonly http: Http
  private readonly settings: PushSettings
  private readonly request: PushRequest
  private readonly accept: boolean
  private readonly reporter: PushReporter
  private readonly stop: AbortSignal
  private readonly tally = new Tally()
  private readonly users = new UserCount()
  private worker!: Worker
  private run!: Run
  private planned!: PlannedPushes
  private interrupted: OpenRun[] = []
  private toServe = 0
  private served = 0
  /** Of a weekly push, once it is known what there is to do. */
  private verdict: Verdict | undefined
  /** There are users to serve, and none of them is served. */
  private isHeld = false
  private wasHeldBefore = false
  /** Users who are held back, of whom a run before this one told. */
  private heldAgain = 0

  constructor(context: PushContext) {
    this.db = context.db
    this.http = context.http
    this.settings = context.settings
    this.request = context.request
    this.accept = context.accept ?? false
    this.reporter = {
      ...context.reporter,
      line: (line) => {
        if (this.tellsHeld && line.type === 'skip' && line.user !== undefined && isHeldBack(line.reason)) {
          this.heldAgain++
          return
        }
        this.tally.add(line)
        context.reporter.line(line)
      },
    }
    this.stop = context.stop
  }

  async execute(): Promise<PushEnd> {
    const startedAt = performance.now()
    this.worker = await Worker.start(this.db, this.settings.leaseMs)
    this.run = await this.begin()
    const { db, worker, run, settings, reporter, stop } = this
    this.planned = new PlannedPushes({ db, worker, run, settings, reporter, stop })
    await rideOut(() => endFarPauses(this.db))
    const already = await this.prepare()

    let loop = this.newLoop()
    await loop.run(this.pushes())
    if (this.request.what === 'resume' && !this.stop.aborted && !loop.gaveUp && (await this.isMoreLeft())) {
      await this.findWork()
      loop = this.newLoop()
      await loop.run(this.pushes())
    }
    // who had a stretch at the last look may have died while attempts were under way
    if (this.request.what === 'all' && this.isThrough(loop) && this.isAnyLeft((await this.countLeft()).owed)) {
      loop = this.newLoop()
      await loop.run(this.pushes(true))
    }

    return await this.end(loop, already, startedAt)
  }

  private readonly isThrough = (loop: PushLoop) => !this.stop.aborted && !loop.gaveUp && !this.isHeld

  /** Of so many owed users: any but those whom the guard holds back. */
  private readonly isAnyLeft = (owed: number) =>
    this.request.what !== 'failed' && this.limit === undefined && owed > this.planned.heldUsers

  private async end(loop: PushLoop, already: number, startedAt: number): Promise<PushEnd> {
    const left = await this.countLeft()
    const stopped = this.stop.aborted
    const cameToEnd = this.isThrough(loop) && !this.isAnyLeft(left.owed)
    // what another process has in hand of them, and may yet leave behind, stays to be resumed
    if (cameToEnd && left.elsewhere === 0 && this.limit === undefined)
      await closeInterruptedRuns(
        this.db,
        this.interrupted.map(({ id }) => id),
        this.planned.heldUsers,
      )
    const { delivered, failed, unknown, pending, skipped, deliveries, leads, bytes } = this.tally
    const { heldUsers, slowUsers } = this.planned
    const failures = failed + unknown
    const complete = cameToEnd && failures + pending + heldUsers === 0
    await endRun(this.db, this.run.id, {
      outcome: stopped ? 'stopped' : complete ? 'complete' : 'failures',
      cameToEnd,
      heldUsers,
    })
    await rideOut(() => this.worker.stop())
    const toldBefore = !stopped && this.isTold(loop, pending)
    if (this.heldAgain > 0)
      this.reporter.note(`Users held back: ${this.heldAgain}, as a push before this one told; see leadpush status.`)
    // who is held back was skipped, and is owed
    const others = skipped - (heldUsers - this.heldAgain) + left.uncounted
    const users = this.request.what === 'user' ? 1 : this.users.total + others
    const seconds = Math.round(performance.now() - startedAt) / 1_000
    const summary: SummaryLine = {
      type: 'summary', period: this.run.period, users, deliveries, delivered, failed, unknown, skipped, already,
      elsewhere: left.elsewhere, owed: left.owed, leads, bytes, seconds,
    } // biome-ignore format: in the order in which it is printed
    this.reporter.line(summary)
    return {
      ...{ summary, stopped, cameToEnd },
      ok: complete || (toldBefore && failures === 0),
      held: this.isHeld || heldUsers > slowUsers,
      toldBefore: toldBefore && failures + delivered === 0,
    }
  }

  /** Whether what keeps it from its end is what a run before it has told already. */
  private isTold(loop: PushLoop, pending: number): boolean {
    if (this.request.what !== 'resume' || this.planned.heldUsers > this.heldAgain) return false
    if (loop.gaveUp) return loop.gaveUpAgain
    if (pending > 0) return false
    return this.isHeld ? this.wasHeldBefore : this.heldAgain > 0
  }

  /** It goes on for the users alone who were held back by runs that came to all others. */
  private get tellsHeld(): boolean {
    const { request, interrupted } = this
    return request.what === 'resume' && interrupted.length > 0 && interrupted.every(({ cameToEnd }) => cameToEnd)
  }

  private async begin(): Promise<Run> {
    const commands: Record<PushRequest['what'], RunCommand> = {
      all: 'all',
      resume: 'resume',
      failed: 'failed',
      user: 'user',
    }
    const { request, settings } = this
    const run = await startRun(this.db, {
      command: request.what === 'all' && request.force ? 'force' : commands[request.what],
      workerIds: this.worker.ids,
      resumable: request.what === 'all' && request.limit === undefined,
      timeZone: settings.timeZone,
      maxLeadAgeMs: settings.maxLeadAgeMs,
    })
    // a weekly one is held, or was accepted
    if (run.otherTimeZone !== undefined && request.what !== 'all') {
      this.reporter.note(
        `The last run used the time zone ${run.otherTimeZone}, this one ${settings.timeZone}: machines that share a database must agree on LEADPUSH_TIME_ZONE, or weeks overlap.`,
      )
    }
    return run
  }

  /** Finds out what there is to do; returns how many users had their weekly delivery before. */
  private async prepare(): Promise<number> {
    if (this.request.what === 'user') {
      this.reporter.total(1)
      return 0
    }
    await this.findWork()
    this.reporter.total(Math.min(this.toServe, this.limit ?? this.toServe))
    return this.request.what === 'all' ? await rideOut(() => countServed(this.db, this.run.period)) : 0
  }

  /** What others left, how many users there are to serve, and what the guard says of that. */
  private async findWork(): Promise<void> {
    const { db, run, request } = this
    if (request.what !== 'failed') this.interrupted = await findInterruptedRuns(db, run.period)
    if (request.what === 'all' || (request.what === 'resume' && this.interrupted.length > 0)) await this.askGuard()
    this.toServe = 0
    let elsewhere = 0
    for (const pass of this.passes()) {
      const { free, held } = await rideOut(() => countUsersToServe(db, pass))
      this.toServe += free
      elsewhere += held
    }
    const reason = this.verdict?.held
    const isForNobody = this.toServe + elsewhere === 0 && run.otherTimeZone === undefined
    if (reason === undefined || this.isHeld || isForNobody) return
    this.isHeld = true
    this.wasHeldBefore = await wasHeldBefore(db, run.period, run.id)
    this.reporter.line({ type: 'skip', reason })
  }

  private async askGuard(): Promise<void> {
    if (this.verdict) return
    const { accept, interrupted, run } = this
    const { guard, timeZone } = this.settings
    const { otherTimeZone } = run
    this.verdict = await judge(this.db, run.period, { guard, accept, interrupted, timeZone, otherTimeZone })
    await recordFeed(this.db, run.id, { ...this.verdict, accepted: accept })
  }

  private get limit(): number | undefined {
    return this.request.what === 'all' ? this.request.limit : undefined
  }

  /** The ways through the users that this run goes, one after the other. */
  private passes(): Pass[] {
    const { request, run } = this
    const { guardsUsers = false, earlier = [] } = this.verdict ?? {}
    if (request.what === 'user') return []
    if (request.what === 'failed')
      return [failedPass(run.period, run.id, request.unknown ? ['failed', 'unknown'] : ['failed'])]
    const forced = this.interrupted
      .filter(({ command }) => command === 'force')
      .map(({ id }) => forcedPass(run.period, id, guardsUsers))
    const weekly = weeklyPass(run.period, earlier)
    if (request.what === 'resume') return this.interrupted.length > 0 ? [weekly, ...forced] : []
    return [weekly, ...forced, ...(request.force ? [forcedPass(run.period, run.id, guardsUsers)] : [])]
  }

  private get isOwedOnly(): boolean {
    return this.request.what === 'user' && this.request.owedOnly === true
  }

  private get reach(): Reach {
    const { request } = this
    if (request.what === 'user') return request.owedOnly ? { subscriptionOf: request.user.id } : 'own'
    return request.what === 'failed' ? 'own' : 'all'
  }

  private newLoop(): PushLoop {
    const { db, http, worker, settings, run, stop, reporter } = this
    return new PushLoop({
      db, http, worker, settings, stop,
      leads: this.planned.leads,
      runId: run.id,
      period: run.period,
      reach: this.reach,
      users: this.users,
      patienceMs: this.isOwedOnly ? owedPatienceMs : Number.POSITIVE_INFINITY,
      minded: this.request.what !== 'user' && !this.accept,
      tellsAgain: this.request.what !== 'resume',
      planAnew: (pushes, erasures) => this.planned.again(pushes, erasures),
      onDelivery: (delivery) => reporter.line(toDeliveryLine(delivery)),
      onAttempt: ({ idempotencyKey, attempt }, { durationMs, httpStatus, error }) =>
        reporter.attempt({ runId: run.id, idempotencyKey, attempt, durationMs, httpStatus, error }),
      onNote: (note) => reporter.note(note),
      onWait: (what) => reporter.waits(what),
    }) // biome-ignore format: short
  }

  private async *pushes(isAgain = false): AsyncGenerator<Planned> {
    const { request } = this
    if (request.what === 'user') {
      if (this.isOwedOnly && !request.owed) return
      yield* this.planned.ofUsers([request.user], { kind: request.owed ? 'subscription' : 'single', scope: null })
      return
    }
    if (request.what !== 'failed') {
      for await (const owed of findUsersOwedSubscription(this.db))
        yield* this.planned.ofUsers(owed, { kind: 'subscription', scope: null })
      if (request.what === 'all' && !isAgain) await this.skipUsersWithoutQueries()
    }
    if (this.verdict?.held !== undefined) return
    const limit = this.limit ?? Number.POSITIVE_INFINITY
    for (const pass of this.passes()) {
      for await (const push of this.planned.ofPass(pass, this.toServe, () => limit - this.served)) {
        if (this.served >= limit) break
        yield push
        this.served++
      }
    }
  }

  private async skipUsersWithoutQueries(): Promise<void> {
    for await (const email of findUsersWithoutQueries(this.db, weeklyPass(this.run.period).scope)) {
      this.reporter.line({ type: 'skip', user: email, reason: 'no queries' })
    }
  }

  /** Whether there may be something to go on with that another process had in hand; waits for its lease. */
  private async isMoreLeft(): Promise<boolean> {
    const { db, worker, stop, reporter, run } = this
    const onWait = (text: string) => {
      reporter.waits('another process')
      reporter.note(text)
    }
    const ranOut = await waitForLeases(() => findOthersAtWork(db, worker.ids), { stop, onWait })
    reporter.waits(undefined)
    if (ranOut) return true
    if (stop.aborted) return false
    // or its lease was over before anybody waited
    if (await rideOut(() => isAnythingAbandoned(db))) return true
    const known = new Set(this.interrupted.map(({ id }) => id))
    return (await findInterruptedRuns(db, run.period)).some(({ id }) => !known.has(id))
  }

  /** What this run did not come to: users that are owed theirs, and what other processes have in hand. */
  private async countLeft(): Promise<{ owed: number; uncounted: number; elsewhere: number }> {
    if (this.request.what === 'user') return { owed: 0, uncounted: 0, elsewhere: 0 }
    let owed = 0
    let uncounted = 0
    let elsewhere = 0
    const { db, worker, users } = this
    for (const pass of this.passes()) {
      const left = await rideOut(() => countUsersToServe(db, pass, worker.ids, users.remembered))
      const { held, free } = left
      owed += free
      uncounted += left.uncounted
      elsewhere += held
    }
    const { rows } = await rideOut(() =>
      sql<{ n: number }>`
        select count(*) as n from deliveries d
        where d.status = 'pending' and d.worker_id <> all (${this.worker.ids}) and ${isLive(sql`d.worker_id`)}
      `.execute(this.db),
    )
    return { owed, uncounted, elsewhere: elsewhere + (rows[0]?.n ?? 0) }
  }
}

export interface PushContext {
  db: Database
  http: Http
  settings: PushSettings
  request: PushRequest
  /** Sends what the guard holds back. */
  accept?: boolean | undefined
  reporter: PushReporter
  /** Aborted: finish what is under way, begin nothing, give back the rest. */
  stop: AbortSignal
}

/** Does what `request` asks, and tells `reporter`. Throws `database` when the database stays away. */
export async function runPush(context: PushContext): Promise<PushEnd> {
  return await new PushRun(context).execute()
}
