/**
 * A run: the order of its work and how it ended, for each form of `push`. The loop sends; `planned-pushes` turns users into pushes.
 */
import { rideOut } from '../db/away.ts'
import { type Worker, waitForLeases, withWorker } from '../db/leases.ts'
import type { Database } from '../db/open.ts'
import { endFarPauses } from '../deliveries/due.ts'
import { isAnythingAbandoned, type Takeover } from '../deliveries/ledger.ts'
import {
  closeInterruptedRuns,
  endRun,
  findInterruptedRuns,
  findOthersAtWork,
  type Run,
  recordImportVolume,
  wasHeldBefore,
} from '../deliveries/runs.ts'
import type { SummaryLine } from '../index.ts'
import { plainVault } from '../secrets/vault.ts'
import { Agenda, type CountedUsers, type UsersLeft } from './agenda.ts'
import { beginRun } from './begin-run.ts'
import { Doubt } from './doubt.ts'
import { FirstAnswers, isHeldByAnswers } from './first-answers.ts'
import { isHeldBack } from './guard.ts'
import { PushLoop } from './loop.ts'
import { NamedUsers } from './named-users.ts'
import { PlannedPushes, type UserPush } from './planned-pushes.ts'
import type { Ending, PushContext, PushEnd, PushRequest } from './push-request.ts'
import { type PushReporter, Tally, tellLeftOwed } from './reporter.ts'
import { RunRecords } from './run-records.ts'
import { UserCount } from './user-count.ts'
import { countUsersElsewhere } from './users-left.ts'

export type { PushContext, PushEnd, PushRequest, PushSettings } from './push-request.ts'

/** `serve` runs few pushes at once: one that sends what is owed does not wait longer than this for a second attempt. */
const owedPatienceMs = 2_000
/** How often a run looks once more for who is owed: whoever comes later is left to the next. */
const lookAgainMax = 5

class PushRun {
  private readonly db: Database
  private readonly request: PushRequest
  private readonly reporter: PushReporter
  private readonly stop: AbortSignal
  private readonly context: PushContext
  private readonly worker: Worker
  private readonly run: Run
  private readonly agenda: Agenda
  private readonly planned: PlannedPushes
  private readonly tally = new Tally()
  private readonly users = new UserCount()
  private readonly named: NamedUsers
  private readonly startedAt: number
  /** What the last count of the users found. */
  private counted: CountedUsers = { free: 0, uncounted: 0, elsewhere: 0, served: 0, withoutQueries: 0 }
  private served = 0
  /** The guard holds the whole run. */
  private isHeld = false
  private wasHeldBefore = false
  /** Users who are held back, and whom an earlier run has reported. */
  private heldAgain = 0
  private readonly doubt: Doubt
  private readonly firstAnswers: FirstAnswers
  private readonly records: RunRecords
  private loop: PushLoop | undefined
  private loops = 0
  /** Attempts a second, since the receiver asked for less. */
  private allowed: number | undefined

  constructor(context: PushContext, worker: Worker, run: Run, records: RunRecords, startedAt: number) {
    const { db, settings, request, accept = false } = context
    const stop = AbortSignal.any([context.stop, worker.lost])
    this.context = context
    this.db = db
    this.request = request
    this.stop = stop
    this.worker = worker
    this.run = run
    this.startedAt = startedAt
    this.doubt = new Doubt(settings.outageMs > 0)
    this.firstAnswers = new FirstAnswers(accept)
    this.named = new NamedUsers(request)
    this.reporter = {
      ...context.reporter,
      line: (line) => {
        if (this.tellsHeld && line.type === 'skip' && line.user !== undefined && isHeldBack(line.reason)) {
          this.heldAgain++
          return
        }
        this.tally.add(line)
        this.named.noteLine(line)
        context.reporter.line(line)
      },
      pace: (ratePerSecond) => {
        this.allowed = ratePerSecond
        context.reporter.pace(ratePerSecond)
      },
    }
    this.agenda = new Agenda({
      ...{ db, request, accept, timeZone: settings.timeZone, guard: settings.guard },
      ...{ period: run.period, runId: run.id, otherTimeZone: run.otherTimeZone },
    })
    this.planned = new PlannedPushes({ db, worker, run, settings, reporter: this.reporter, stop })
    this.records = records
    worker.hasRecords = () => {
      // what was read of another server may mean something else on this one
      this.planned.forget()
      this.loop?.lookAnew()
      return records.areThere()
    }
  }

  async execute(): Promise<PushEnd> {
    await rideOut(() => endFarPauses(this.db))
    const already = await this.prepare()

    let loop = this.newLoop()
    await loop.run(this.pushes())
    if (this.request.what === 'resume' && !this.stop.aborted && !loop.gaveUp && (await this.isMoreLeft())) {
      await this.findWork()
      this.users.leftOwed.clear()
      loop = this.newLoop()
      await loop.run(this.pushes())
    }
    // a process that had a range of users may have died while attempts were under way, and users may have come
    let left = await this.countLeft()
    this.worker.lost.throwIfAborted()
    for (let looks = 0; looks < lookAgainMax; looks++) {
      if (this.request.what !== 'all' || !this.isThrough(loop) || !this.isAnyLeft(left.free)) break
      this.counted = left
      loop = this.newLoop()
      await loop.run(this.pushes(true))
      left = await this.countLeft()
      this.worker.lost.throwIfAborted()
    }

    return await this.end(loop, already, left)
  }

  private readonly isThrough = (loop: PushLoop) => !this.stop.aborted && !loop.gaveUp && !this.isHeld

  /** Whether any of so many owed users is left besides those whom the guard holds back. */
  private readonly isAnyLeft = (owed: number) =>
    this.request.what !== 'failed' && this.limit === undefined && owed > this.planned.heldUsers

  /** Records how the run ended, on a server that has all its records. */
  private async conclude(loop: PushLoop, counted: UsersLeft): Promise<Ending> {
    const { db, run, worker } = this
    for (let left = counted; ; left = await this.countLeft()) {
      const ending = this.judge(loop, left)
      const { stopped, cameToEnd, complete, heldBy } = ending
      const outcome = stopped ? 'stopped' : complete ? 'complete' : 'failures'
      const heldByAnswers = heldBy !== undefined && isHeldByAnswers(heldBy) ? heldBy : undefined
      const end = { outcome, cameToEnd, heldUsers: this.planned.heldUsers, heldByAnswers } as const
      if (await endRun(db, run.id, worker.server, end)) return ending
      worker.distrust()
      await rideOut(() => worker.renew())
      worker.lost.throwIfAborted()
    }
  }

  private judge(loop: PushLoop, left: UsersLeft): Ending {
    const heldBy = loop.heldBy ?? (this.isThrough(loop) ? this.firstAnswers.findReasonToHold(true) : undefined)
    const stopped = this.stop.aborted
    const cameToEnd = this.isThrough(loop) && heldBy === undefined && !this.isAnyLeft(left.free)
    const { failed, unknown, pending } = this.tally
    // these were asked for nothing else; after other forms `--resume` sends it
    const leftOwed = this.isForSome ? this.users.leftOwed.size : 0
    const owed = pending + leftOwed
    const complete = cameToEnd && owed + failed + unknown + this.planned.heldUsers === 0
    return { left, heldBy, stopped, cameToEnd, complete }
  }

  private async end(loop: PushLoop, already: number, leftBefore: UsersLeft): Promise<PushEnd> {
    const ending = await this.conclude(loop, leftBefore)
    const { heldBy, left, stopped, cameToEnd, complete } = ending
    if (heldBy !== undefined) this.reporter.line({ type: 'skip', reason: heldBy })
    // users whom another process has in hand may yet be abandoned: then the interrupted runs must still be found
    if (cameToEnd && left.elsewhere === 0 && this.limit === undefined)
      await closeInterruptedRuns(
        this.db,
        this.agenda.interrupted.map(({ id }) => id),
        this.planned.heldUsers,
      )
    if (!stopped && !loop.gaveUp && !this.isOwedOnly)
      for (const line of await this.named.findUntold(this.db, this.users)) this.reporter.line(line)
    const { delivered, failed, unknown, pending, skipped, deliveries, leads, bytes } = this.tally
    const { heldUsers, slowUsers } = this.planned
    tellLeftOwed(this.reporter, this.users.leftOwed.size)
    const failures = failed + unknown
    const toldBefore = !stopped && this.isTold(loop, pending, heldBy)
    if (this.heldAgain > 0)
      this.reporter.note(`Users held back: ${this.heldAgain}, as a push before this one told; see leadpush status.`)
    const counted = { skipped, heldUsers: heldUsers - this.heldAgain, uncounted: left.uncounted }
    const users = this.request.what === 'user' ? this.named.all.length : this.users.totalWith(counted)
    const seconds = Math.round(performance.now() - this.startedAt) / 1_000
    const summary: SummaryLine = {
      type: 'summary',
      period: this.run.period,
      users,
      deliveries,
      delivered,
      failed,
      unknown,
      skipped,
      already,
      elsewhere: left.elsewhere,
      owed: left.free,
      leads,
      bytes,
      seconds,
      ...(this.allowed !== undefined && { allowedPerSecond: Math.round(this.allowed * 100) / 100 }),
      ...(this.context.settings.sameHouse === 'once' && { sameHouse: this.planned.sameHouse }),
    }
    this.reporter.line(summary)
    return {
      ...{ summary, stopped, cameToEnd },
      ok: complete || (toldBefore && failures === 0),
      held: this.isHeld || heldBy !== undefined || heldUsers > slowUsers,
      toldBefore: toldBefore && failures + delivered === 0,
    }
  }

  /** Whether an earlier run has already reported what keeps this one from its end. */
  private isTold(loop: PushLoop, pending: number, heldBy: string | undefined): boolean {
    if (this.request.what !== 'resume' || this.planned.heldUsers > this.heldAgain) return false
    if (loop.gaveUp) return loop.gaveUpAgain
    if (pending > 0 || heldBy !== undefined) return false
    return this.isHeld ? this.wasHeldBefore : this.heldAgain > 0
  }

  /** The run resumes only runs that served all but the users whom the guard held back. */
  private get tellsHeld(): boolean {
    const { request } = this
    const { interrupted } = this.agenda
    return request.what === 'resume' && interrupted.length > 0 && interrupted.every(({ cameToEnd }) => cameToEnd)
  }

  /** Finds the work and reports how much it is; returns how many users had their weekly delivery before. */
  private async prepare(): Promise<number> {
    if (this.request.what === 'user') {
      this.reporter.total(this.named.all.length)
      return 0
    }
    await this.findWork()
    this.reporter.total(Math.min(this.counted.free, this.limit ?? this.counted.free))
    return this.request.what === 'all' ? this.counted.served : 0
  }

  /** Finds the runs to resume and the number of users to serve, and asks the guard. */
  private async findWork(): Promise<void> {
    const { db, run, agenda } = this
    const wasAsked = agenda.verdict !== undefined
    await agenda.look()
    if (!wasAsked) await this.recordVerdict()
    this.counted = await agenda.count()
    const reason = agenda.findReasonToHoldAll(this.counted)
    if (reason === undefined || this.isHeld) return
    this.isHeld = true
    this.wasHeldBefore = await wasHeldBefore(db, run.period, run.id)
    this.reporter.line({ type: 'skip', reason })
  }

  private async recordVerdict(): Promise<void> {
    const { db, records, accepts } = this
    const { verdict } = this.agenda
    const { run } = records
    if (verdict) records.note(await recordImportVolume(db, run, { ...verdict, accepted: accepts }), run)
  }

  private get accepts(): boolean {
    return this.context.accept ?? false
  }

  private get limit(): number | undefined {
    return this.request.what === 'all' ? this.request.limit : undefined
  }

  private get isOwedOnly(): boolean {
    const { request } = this
    return request.what === 'owed' || (request.what === 'user' && request.owedOnly === true)
  }

  /** The run serves users by name or subscription pushes alone: it owes nothing to others. */
  private get isForSome(): boolean {
    return this.request.what === 'user' || this.request.what === 'owed'
  }

  private get takeover(): Takeover {
    const { request } = this
    if (request.what === 'user') return request.owedOnly ? { subscriptionOf: request.user.id } : 'own'
    if (request.what === 'owed') return 'subscriptions'
    return request.what === 'failed' ? 'own' : 'all'
  }

  private newLoop(): PushLoop {
    const { db, worker, run, planned, users, reporter, stop, takeover, request } = this
    const { http, settings, vault = plainVault } = this.context
    this.loop = new PushLoop({
      ...{ db, http, vault, worker, run, planned, users, settings, reporter, stop, takeover, records: this.records },
      patienceMs: this.isOwedOnly ? owedPatienceMs : Number.POSITIVE_INFINITY,
      doubt: this.doubt,
      firstAnswers: this.firstAnswers,
      isBeginning: this.loops++ === 0,
      looksFor: request.what === 'user' ? 'nothing' : this.accepts ? 'recovery' : 'trouble',
      tellsAgain: request.what !== 'resume',
    })
    return this.loop
  }

  private async *pushes(isAgain = false): AsyncGenerator<UserPush> {
    const limit = this.limit ?? Number.POSITIVE_INFINITY
    for await (const step of this.agenda.steps(this.counted, isAgain)) {
      if ('skip' in step) this.reporter.line(step.skip)
      else if ('users' in step) yield* this.planned.ofUsers(step.users, step.kind)
      else {
        for await (const push of this.planned.ofPass(step.pass, this.counted.free, () => limit - this.served)) {
          if (this.served >= limit) break
          yield push
          this.served++
        }
      }
    }
  }

  /** Waits for the leases of other processes; returns whether there may be abandoned work to take over. */
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
    // a lease may have run out before this run began to wait
    if (await rideOut(() => isAnythingAbandoned(db))) return true
    const known = new Set(this.agenda.interrupted.map(({ id }) => id))
    return (await findInterruptedRuns(db, run.period)).some(({ id }) => !known.has(id))
  }

  /** Counts the users whom this run left owed, and the users whom other processes have in hand. */
  private async countLeft(): Promise<CountedUsers> {
    const { db, worker, users, agenda } = this
    const left = await agenda.count(worker.ids, users.remembered)
    if (this.isForSome) return { ...left, free: this.users.leftOwed.size }
    return { ...left, elsewhere: left.elsewhere + (await countUsersElsewhere(db, agenda.passes, worker.ids)) }
  }
}

/** Does what `request` asks, and tells `reporter`. Throws `database` when the database stays away, or has lost records of the run. */
export async function runPush(context: PushContext): Promise<PushEnd> {
  const startedAt = performance.now()
  const { db, settings } = context
  return await withWorker(db, settings.leaseMs, async (worker) => {
    const { run, start } = await beginRun(context, worker)
    const records = new RunRecords({ db, worker, run, start, startedAt })
    try {
      return await new PushRun(context, worker, run, records, startedAt).execute()
    } catch (error) {
      throw worker.lost.aborted ? await records.noteLoss() : error
    }
  })
}
