/**
 * A run: what each form of `push` sets out to do, in which order, and how it ended. The sending itself is the loop's; how users
 * become pushes is `planned-pushes`'.
 */
import { sql } from 'kysely'
import { rideOut } from '../db/away.ts'
import { isLive, Worker, waitForLeases } from '../db/leases.ts'
import type { Database } from '../db/open.ts'
import { endFarPauses } from '../deliveries/due.ts'
import { isAnythingAbandoned, type Reach } from '../deliveries/ledger.ts'
import {
  closeInterruptedRuns,
  endRun,
  findInterruptedRuns,
  findOthersAtWork,
  type Run,
  type RunCommand,
  recordFeed,
  startRun,
  wasHeldBefore,
} from '../deliveries/runs.ts'
import type { Http } from '../http/client.ts'
import type { SummaryLine } from '../index.ts'
import { Agenda, type AgendaRequest, type UsersLeft } from './agenda.ts'
import { isHeldBack } from './guard.ts'
import { type LoopSettings, type Planned, PushLoop } from './loop.ts'
import { PlannedPushes } from './planned-pushes.ts'
import { type PushReporter, Tally, tellLeftOwed, toDeliveryLine } from './reporter.ts'
import { UserCount } from './user-count.ts'

export interface PushSettings extends LoopSettings {
  leaseMs: number
  timeZone: string
  maxLeadAgeMs: number
  guard: 'on' | 'off'
}

export type PushRequest =
  /** `limit`: so many users are served. */
  { what: 'all'; force: boolean; limit: number | undefined } | Exclude<AgendaRequest, { what: 'all' }>

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
  private agenda!: Agenda
  private planned!: PlannedPushes
  private toServe = 0
  private served = 0
  /** There are users to serve, and none of them is served. */
  private isHeld = false
  private wasHeldBefore = false
  /** Users who are held back, of whom a run before this one told. */
  private heldAgain = 0
  /** Users whose subscription push was not begun, since another transaction went on changing them. */
  private readonly leftOwed = new Set<number>()

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
    this.agenda = new Agenda({
      ...{ db, request: this.request, accept: this.accept, timeZone: settings.timeZone, guard: settings.guard },
      ...{ period: run.period, runId: run.id, otherTimeZone: run.otherTimeZone },
    })
    this.planned = new PlannedPushes({ db, worker, run, settings, reporter, stop })
    await rideOut(() => endFarPauses(this.db))
    const already = await this.prepare()

    let loop = this.newLoop()
    await loop.run(this.pushes())
    if (this.request.what === 'resume' && !this.stop.aborted && !loop.gaveUp && (await this.isMoreLeft())) {
      await this.findWork()
      this.leftOwed.clear()
      loop = this.newLoop()
      await loop.run(this.pushes())
    }
    // who had a stretch at the last look may have died while attempts were under way
    if (this.request.what === 'all' && this.isThrough(loop) && this.isAnyLeft((await this.countLeft()).free)) {
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
    const cameToEnd = this.isThrough(loop) && !this.isAnyLeft(left.free)
    // what another process has in hand of them, and may yet leave behind, stays to be resumed
    if (cameToEnd && left.elsewhere === 0 && this.limit === undefined)
      await closeInterruptedRuns(
        this.db,
        this.agenda.interrupted.map(({ id }) => id),
        this.planned.heldUsers,
      )
    const { delivered, failed, unknown, pending, skipped, deliveries, leads, bytes } = this.tally
    const { heldUsers, slowUsers } = this.planned
    tellLeftOwed(this.reporter, this.leftOwed.size)
    const failures = failed + unknown
    // nothing else was asked of `--user`; for others it is what `--resume` comes to
    const leftOwed = this.request.what === 'user' ? this.leftOwed.size : 0
    const complete = cameToEnd && failures + pending + heldUsers + leftOwed === 0
    await endRun(this.db, this.run.id, {
      outcome: stopped ? 'stopped' : complete ? 'complete' : 'failures',
      cameToEnd,
      heldUsers,
    })
    await rideOut(() => this.worker.stop())
    const toldBefore = !stopped && this.isTold(loop, pending)
    if (this.heldAgain > 0)
      this.reporter.note(`Users held back: ${this.heldAgain}, as a push before this one told; see leadpush status.`)
    const counted = { skipped, heldUsers: heldUsers - this.heldAgain, uncounted: left.uncounted }
    const users = this.request.what === 'user' ? 1 : this.users.totalWith(counted)
    const seconds = Math.round(performance.now() - startedAt) / 1_000
    const summary: SummaryLine = {
      type: 'summary', period: this.run.period, users, deliveries, delivered, failed, unknown, skipped, already,
      elsewhere: left.elsewhere, owed: left.free, leads, bytes, seconds,
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
    const { request } = this
    const { interrupted } = this.agenda
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
    return await this.agenda.countAlready()
  }

  /** What others left, how many users there are to serve, and what the guard says of that. */
  private async findWork(): Promise<void> {
    const { db, run, agenda, accept } = this
    const wasAsked = agenda.verdict !== undefined
    await agenda.look()
    if (agenda.verdict && !wasAsked) await recordFeed(db, run.id, { ...agenda.verdict, accepted: accept })
    const left = await agenda.count()
    this.toServe = left.free
    const reason = agenda.findReasonToHoldAll(left)
    if (reason === undefined || this.isHeld) return
    this.isHeld = true
    this.wasHeldBefore = await wasHeldBefore(db, run.period, run.id)
    this.reporter.line({ type: 'skip', reason })
  }

  private get limit(): number | undefined {
    return this.request.what === 'all' ? this.request.limit : undefined
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
      onLeftOwed: (userId) => this.leftOwed.add(userId),
      onAttempt: ({ idempotencyKey, attempt }, { durationMs, httpStatus, error }) =>
        reporter.attempt({ runId: run.id, idempotencyKey, attempt, durationMs, httpStatus, error }),
      onNote: (note) => reporter.note(note),
      onWait: (what) => reporter.waits(what),
    }) // biome-ignore format: short
  }

  private async *pushes(isAgain = false): AsyncGenerator<Planned> {
    const limit = this.limit ?? Number.POSITIVE_INFINITY
    for await (const step of this.agenda.steps(isAgain)) {
      if ('skip' in step) this.reporter.line(step.skip)
      else if ('users' in step) yield* this.planned.ofUsers(step.users, { kind: step.kind, scope: null })
      else {
        for await (const push of this.planned.ofPass(step.pass, this.toServe, () => limit - this.served)) {
          if (this.served >= limit) break
          yield push
          this.served++
        }
      }
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
    const known = new Set(this.agenda.interrupted.map(({ id }) => id))
    return (await findInterruptedRuns(db, run.period)).some(({ id }) => !known.has(id))
  }

  /** What this run did not come to: users that are owed theirs, and what other processes have in hand. */
  private async countLeft(): Promise<UsersLeft> {
    const { db, worker, users, agenda } = this
    const left = await agenda.count(worker.ids, users.remembered)
    if (this.request.what === 'user') return { ...left, free: this.leftOwed.size }
    const { rows } = await rideOut(() =>
      sql<{ n: number }>`
        select count(*) as n from deliveries d
        where d.status = 'pending' and d.worker_id <> all (${worker.ids}) and ${isLive(sql`d.worker_id`)}
      `.execute(db),
    )
    return { ...left, elsewhere: left.elsewhere + (rows[0]?.n ?? 0) }
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
