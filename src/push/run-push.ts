/**
 * A run: the order of its work and how it ended, for each form of `push`. The loop sends; `planned-pushes` turns users into pushes.
 */
import { systemClock } from '../base/clock.ts'
import { type Worker, waitForLeases, withWorker } from '../db/leases.ts'
import type { Run } from '../deliveries/runs.ts'
import type { PushLine, SummaryLine } from '../index.ts'
import { PushLoop } from './attempts/loop.ts'
import type { LoopContext } from './attempts/loop-context.ts'
import { databaseLedger } from './database/database-ledger.ts'
import { type Hold, toReason, type UserHold } from './hold.ts'
import type { PushContext, PushEnd, RunContext } from './push-request.ts'
import { Receiver } from './receiver/receiver.ts'
import { type PushReporter, Tally } from './reporter.ts'
import { judgeRun, type LoopEnd, nextRound, type RunEnd, type RunFacts } from './run/run-end.ts'
import { lostRecords, RunRecords } from './run/run-records.ts'
import { isResumable, type Scope, scopeOf } from './run/scope.ts'
import { Agenda, type CountedUsers, skipRemoved } from './whom/agenda.ts'
import type { LeftOutReason } from './whom/left-out.ts'
import type { UserToServe } from './whom/pass.ts'
import { PlannedPushes, type UserPush } from './whom/planned-pushes.ts'
import { UserCount } from './whom/user-count.ts'
import { httpWire } from './wire.ts'

export type { PushContext, PushEnd, PushSettings, RunContext } from './push-request.ts'
export type { PushRequest } from './run/scope.ts'

class PushRun {
  private readonly context: RunContext
  private readonly scope: Scope
  private readonly startedAt: number
  /** The tools of its rounds: each has a loop of its own. */
  private readonly tools: LoopContext
  private readonly agenda: Agenda
  private readonly tally = new Tally()
  /** Users whom it was asked for by name, by their e-mails, as long as no line names them. */
  private readonly untold: Map<string, UserToServe>
  /** The last count of the users. */
  private counted: CountedUsers = { free: 0, uncounted: 0, elsewhere: 0, served: 0, withoutQueries: 0 }
  private guard: RunFacts['guard'] = 'lets'
  /** Users whose delivery is begun, and has had no attempt. */
  private unreached = 0
  private loop: PushLoop | undefined
  /** `startedAt`: when it was begun, by its clock. */
  constructor(context: RunContext, worker: Worker, run: Run, startedAt: number) {
    const { wire, clock, settings, request, accept = false } = context
    const stop = AbortSignal.any([context.stop, worker.lost])
    const scope = scopeOf(request)
    const users = new UserCount()
    this.context = context
    this.scope = scope
    this.startedAt = startedAt
    this.untold = new Map(scope.named.map((user) => [user.email, user]))
    const reporter: PushReporter = { ...context.reporter, line: (line, hold) => this.tell(line, hold) }
    const { ledger } = context
    const { command, heedsReceiver: heeds } = scope
    const ofReceiver = { heeds, accepts: accept, tellsAgain: command !== 'resume', isOfFailed: command === 'failed' }
    const row = ledger.receiver(settings.receiverUrl, run.id)
    const receiver = new Receiver({ row, wire, clock, settings, reporter, ...ofReceiver })
    const { timeZone, guard } = settings
    const { id: runId, ...ofRun } = run
    this.agenda = new Agenda({ ledger, request, accept, timeZone, guard, runId, ...ofRun })
    const onHeld = (user: UserToServe, hold: UserHold) => this.noteHeld(user, hold)
    const planned = new PlannedPushes({ ledger, worker, run, settings, reporter, stop, onHeld })
    const records = new RunRecords(ledger.runs, worker, run.id)
    const slots = { atOnce: settings.concurrency }
    const own = { ledger, reporter, stop, scope, worker, run, records }
    this.tools = { ...context, ...own, users, planned, receiver, slots, draw: this.draw.bind(this) }
    worker.hasRecords = () => {
      // what was read of another server may mean something else on this one
      planned.forget()
      this.loop?.lookAnew()
      return records.areThere()
    }
  }

  private tell(line: PushLine, hold?: Hold): void {
    this.tally.add(line)
    if ((line.type === 'skip' || line.type === 'delivery') && line.user) this.untold.delete(line.user)
    this.context.reporter.line(line, hold)
  }

  /** `user`: the only user whom it concerns. */
  private tellHold(hold: Hold, user?: string): void {
    this.tell({ type: 'skip', ...(user !== undefined && { user }), reason: toReason(hold) }, hold)
  }

  private noteHeld({ id, email }: UserToServe, hold: UserHold): LeftOutReason {
    this.tools.users.add(id, true)
    const { interrupted } = this.agenda
    // it resumes only runs that served all but the users whom the guard held back, and told so
    const isTold =
      this.scope.command === 'resume' && interrupted.length > 0 && interrupted.every(({ cameToEnd }) => cameToEnd)
    if (hold.by === 'user' && isTold) return 'told'
    this.tellHold(hold, email)
    return hold.by === 'user' ? 'held' : 'slow'
  }

  async execute(): Promise<PushEnd> {
    const { ledger, reporter } = this.tools
    const { named, limit } = this.scope
    await ledger.attempts.endFarPauses()
    if (named.length === 0) await this.findWork()
    reporter.total(named.length || Math.min(this.counted.free, limit))
    const already = this.context.request.what === 'all' ? this.counted.served : 0
    let loop = await this.playRound(false)
    for (let round = 1; ; round++) {
      const next = nextRound(this.facts(loop), round)
      if (next === 'no' || (next === 'afterLeases' && !(await this.isMoreLeft()))) break
      if (next === 'afterLeases') await this.findWork()
      loop = await this.playRound(next === 'again')
    }
    return await this.end(loop, already)
  }

  /** Finds the runs to resume and the number of users to serve, and asks the guard. */
  private async findWork(): Promise<void> {
    const { agenda } = this
    const { ledger, records } = this.tools
    const wasAsked = agenda.verdict !== undefined
    await agenda.look()
    if (agenda.verdict && !wasAsked) {
      const { held } = agenda.verdict
      // a run with a limit accepts for itself alone
      const accepted = (this.context.accept ?? false) && this.scope.limit === Number.POSITIVE_INFINITY
      const of = { held: held && { by: held.by, reason: toReason(held) }, accepted }
      const counting = records.run
      records.note(await ledger.runs.recordVerdict(counting, { ...agenda.verdict, ...of }), counting)
    }
    this.counted = await agenda.count()
    await this.tellWeekHold()
  }

  /** Reports that the guard holds the whole run, once there is somebody to hold. */
  private async tellWeekHold(): Promise<void> {
    const { ledger, run } = this.tools
    const hold = this.agenda.findHold(this.counted)
    if (hold === undefined || this.guard !== 'lets') return
    this.guard = (await ledger.runs.wasHeldBefore(run.period, run.id)) ? 'holdsAgain' : 'holds'
    this.tellHold(hold)
  }

  /** Sends all that it finds; `isAgain`: skipped users have been reported already. */
  private async playRound(isAgain: boolean): Promise<LoopEnd> {
    this.loop = new PushLoop(this.tools, this.pushes(isAgain))
    const end = await this.loop.run()
    // a process with a range of users may have died while attempts were under way, and new users may have come
    await this.countLeft(end)
    return end
  }

  /** Plans the pushes of users who are drawn from all who are owed. */
  private async draw(count: number, reservedBelow: number): Promise<UserPush[]> {
    const { passes, verdict } = this.agenda
    const pushes: UserPush[] = []
    // a run with a limit has taken the users whom it serves
    if (verdict?.held || Number.isFinite(this.scope.limit)) return pushes
    for (const pass of passes) pushes.push(...(await this.tools.planned.draw(pass, count, reservedBelow)))
    return pushes
  }

  private async *pushes(isAgain: boolean): AsyncGenerator<UserPush> {
    const { limit } = this.scope
    const { planned, reporter } = this.tools
    let served = 0
    for await (const step of this.agenda.steps(this.counted, isAgain)) {
      if ('skip' in step) reporter.line(step.skip)
      else if ('users' in step) yield* planned.ofUsers(step.users, step.kind)
      else {
        for await (const push of planned.ofPass(step.pass, this.counted.free, () => limit - served)) {
          yield push
          served++
        }
      }
    }
  }

  /** Counts the users whom this run left owed, and those whom other processes are working on, on a server that has all its records. */
  private async countLeft(loop: LoopEnd): Promise<void> {
    const { agenda, scope } = this
    const { ledger, worker, users, run } = this.tools
    const left = await agenda.count(worker.ids, users.remembered)
    const of = { takeover: scope.takeover, passes: agenda.passes, runId: run.id, counted: users.remembered }
    const unreached = loop.is === 'done' ? { users: 0, uncounted: 0 } : await ledger.users.countUnreached(of)
    this.unreached = unreached.users
    left.uncounted += unreached.uncounted
    if (scope.named.length === 0 && !scope.owedOnly)
      left.elsewhere += await ledger.users.countElsewhere(agenda.passes, worker.ids)
    this.counted = left
    await this.tellWeekHold()
    worker.lost.throwIfAborted()
  }

  /** Waits for the leases of other processes; returns whether there may be abandoned work to take over. */
  private async isMoreLeft(): Promise<boolean> {
    const { ledger, worker, stop, reporter, run, clock } = this.tools
    const onWait = (text: string) => {
      reporter.waits('another process')
      reporter.note(text)
    }
    const ranOut = await waitForLeases(() => ledger.runs.findOthersAtWork(worker.ids), { stop, onWait, clock })
    reporter.waits(undefined)
    if (ranOut) return true
    if (stop.aborted) return false
    // a lease may have run out before this run began to wait
    if (await ledger.attempts.isAnythingAbandoned()) return true
    const known = new Set(this.agenda.interrupted.map(({ id }) => id))
    return (await ledger.runs.findInterrupted(run.period)).some(({ id }) => !known.has(id))
  }

  private facts(loop: LoopEnd): RunFacts {
    const { scope, guard, counted: left, tally } = this
    const { stop, planned } = this.tools
    return { ...tally, scope, loop, left, guard, isStopped: stop.aborted, leftOut: planned.leftOut }
  }

  private async end(loop: LoopEnd, already: number): Promise<PushEnd> {
    const { ledger, run, worker, receiver } = this.tools
    for (;;) {
      const facts = this.facts(loop)
      const end = judgeRun(facts)
      const { outcome, cameToEnd, heldBy } = end
      const heldByAnswers = heldBy?.by === 'answers' ? toReason(heldBy) : undefined
      const acceptsAnswers = cameToEnd && (this.context.accept ?? false) && isResumable(this.scope)
      const endsForcedBy = cameToEnd && this.scope.isForAll ? this.counted.forcedBy : undefined
      const heldUsers = facts.leftOut.size
      const { doubtfulKeys } = receiver
      const of = { outcome, cameToEnd, heldUsers, heldByAnswers, doubtfulKeys, acceptsAnswers, endsForcedBy }
      if (await ledger.runs.end(run.id, worker.server, of)) return await this.report(facts, end, already)
      // another server answers: it is counted anew, if that server has the records of the run
      worker.distrust()
      await ledger.rideOut(() => worker.renew())
      await this.countLeft(loop)
    }
  }

  private async report(facts: RunFacts, end: RunEnd, already: number): Promise<PushEnd> {
    const { ledger, reporter } = this.tools
    const { heldBy, cameToEnd, closes, ok, toldBefore } = end
    const { isStopped: stopped, leftOut, guard, loop } = facts
    if (heldBy) this.tellHold(heldBy)
    const interrupted = this.agenda.interrupted.map(({ id }) => id)
    if (closes) await ledger.runs.closeInterrupted(interrupted, leftOut.size)
    if (!stopped && loop.is === 'done' && !this.scope.owedOnly) await this.tellUntold()
    const told = leftOut.size - leftOut.count('hasLine')
    if (told > 0) reporter.note(`Users held back: ${told}, as a push before this one told; see leadpush status.`)
    const summary = this.summarize(facts, already)
    const heldUsers = leftOut.count('isByGuard')
    reporter.line(summary)
    return {
      ...{ summary, stopped, cameToEnd, ok, toldBefore },
      held: guard !== 'lets' || heldBy !== undefined || heldUsers > 0,
      gaveUp: loop.is === 'gave up' ? loop.why : undefined,
      guard: guard === 'lets' ? undefined : this.agenda.verdict?.held?.by,
      heldUsers,
      doubtful: this.tools.receiver.doubtfulKeys.length,
    }
  }

  /** Reports each user who was asked for by name, and whom a finished run has neither served nor reported. */
  private async tellUntold(): Promise<void> {
    const { ledger, users } = this.tools
    const left = [...this.untold.values()].filter(({ id }) => !users.remembers(id))
    if (left.length === 0) return
    const removed = await ledger.users.findRemoved(left)
    const reason = 'another process has begun or ended this push meanwhile'
    for (const { id, email } of left)
      this.tell(removed.has(id) ? skipRemoved(email) : { type: 'skip', user: email, reason })
  }

  private summarize({ left, leftOut }: RunFacts, already: number): SummaryLine {
    const { named } = this.scope
    const { run, users, planned, clock, receiver } = this.tools
    const { allowedRate } = receiver
    const counted = { skipped: this.tally.skipped, leftOut: leftOut.count('hasLine'), uncounted: left.uncounted }
    const summary = this.tally.summary({
      period: run.period,
      users: named.length > 0 ? named.length : users.totalWith(counted),
      already,
      elsewhere: left.elsewhere,
      owed: left.free + this.unreached,
      seconds: Math.round(clock.now() - this.startedAt) / 1_000,
    })
    return {
      ...summary,
      ...(allowedRate !== undefined && { allowedPerSecond: Math.round(allowedRate * 100) / 100 }),
      ...(this.context.settings.sameHouse === 'once' && { sameHouse: planned.sameHouse }),
    }
  }
}

/** Carries out `request`, and reports to `reporter`. Throws `database` if the database stays away, or has lost records of the run. */
export function runPush({ db, http, ...asked }: PushContext): Promise<PushEnd> {
  const wire = httpWire(http, asked.settings)
  return carryOut({ ...asked, ledger: databaseLedger(db), wire, clock: systemClock })
}

/** Like `runPush`, on any ledger, wire and clock. */
export async function carryOut(context: RunContext): Promise<PushEnd> {
  const { ledger, clock, settings, request, reporter } = context
  const { timeZone, maxLeadAgeMs } = settings
  const startedAt = clock.now()
  const scope = scopeOf(request)
  const start = { command: scope.command, resumable: isResumable(scope), timeZone, maxLeadAgeMs }
  const push = async (worker: Worker) => {
    const run = await ledger.runs.start({ workerIds: worker.ids, ...start })
    // a weekly push with it is held, or was accepted
    if (run.otherTimeZone !== undefined && request.what !== 'all')
      reporter.note(
        `The last run used the time zone ${run.otherTimeZone}, this one ${timeZone}: machines that share a database must agree on LEADPUSH_TIME_ZONE, or weeks overlap.`,
      )
    try {
      return await new PushRun(context, worker, run, startedAt).execute()
    } catch (error) {
      if (!worker.lost.aborted) throw error
      // `status` says so then, and the run can be resumed
      await ledger.runs.recordLoss(run, start, { workerId: worker.id, ageMs: clock.now() - startedAt })
      throw lostRecords()
    }
  }
  return await withWorker(ledger, settings.leaseMs, push, clock)
}
