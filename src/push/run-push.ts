/**
 * A run: the order of its work and how it ended, for each form of `push`. The loop sends; `planned-pushes` turns users into pushes.
 */
import { systemClock } from '../base/clock.ts'
import { type Worker, waitForLeases, withWorker } from '../db/leases.ts'
import type { Run } from '../deliveries/runs.ts'
import type { SummaryLine } from '../index.ts'
import { plainVault } from '../secrets/vault.ts'
import { PushLoop } from './attempts/loop.ts'
import type { LoopContext } from './attempts/loop-context.ts'
import { databaseLedger } from './database/database-ledger.ts'
import { type Hold, toReason, type UserHold } from './hold.ts'
import type { PushContext, PushEnd, RunContext } from './push-request.ts'
import { Receiver } from './receiver/receiver.ts'
import { type PushReporter, Tally, tellLeftOwed } from './reporter.ts'
import { tellAbsence } from './run/absence.ts'
import { judgeRun, type LoopEnd, nextRound, type RunEnd, type RunFacts } from './run/run-end.ts'
import { RunRecords } from './run/run-records.ts'
import { isResumable, type Scope, scopeOf } from './run/scope.ts'
import { Agenda, type CountedUsers } from './whom/agenda.ts'
import { NamedUsers } from './whom/named-users.ts'
import type { UserToServe } from './whom/pass.ts'
import { PlannedPushes, type UserPush } from './whom/planned-pushes.ts'
import { UserCount } from './whom/user-count.ts'
import { httpWire } from './wire.ts'

export type { PushContext, PushEnd, PushSettings, RunContext } from './push-request.ts'
export type { PushRequest } from './run/scope.ts'

/** `serve` runs few pushes at once: one that sends owed pushes does not wait longer than this for a second attempt. */
const owedPatienceMs = 2_000

/** The result of a round, with the counts for the next one. */
type RoundFacts = RunFacts & { left: CountedUsers }

class PushRun {
  private readonly context: RunContext
  private readonly scope: Scope
  /** The tools of its rounds: each has a loop of its own. */
  private readonly tools: LoopContext & { records: RunRecords }
  private readonly agenda: Agenda
  private readonly tally = new Tally()
  private readonly named: NamedUsers
  /** The last count of the users. */
  private counted: CountedUsers = { free: 0, uncounted: 0, elsewhere: 0, served: 0, withoutQueries: 0 }
  private served = 0
  /** The guard holds the whole run. */
  private isHeld = false
  private wasHeldBefore = false
  /** Users who are held back, and whom an earlier run has reported. */
  private heldAgain = 0
  private loop: PushLoop | undefined
  /** Attempts a second, since the receiver asked for less. */
  private allowed: number | undefined

  constructor(context: RunContext, worker: Worker, run: Run, records: RunRecords) {
    const { wire, clock, settings, request, accept = false, vault = plainVault } = context
    const stop = AbortSignal.any([context.stop, worker.lost])
    const scope = scopeOf(request)
    const users = new UserCount()
    this.context = context
    this.scope = scope
    this.named = new NamedUsers(scope.named)
    const reporter: PushReporter = {
      ...context.reporter,
      line: (line, hold) => {
        this.tally.add(line)
        this.named.noteLine(line)
        context.reporter.line(line, hold)
      },
      pace: (ratePerSecond) => {
        this.allowed = ratePerSecond
        context.reporter.pace(ratePerSecond)
      },
    }
    const ledger = tellAbsence(context.ledger, reporter)
    const looksFor = !scope.heedsReceiver ? 'nothing' : accept ? 'recovery' : 'trouble'
    const tellsAgain = scope.command !== 'resume'
    const receiver = new Receiver({ ledger, wire, clock, settings, accepts: accept, reporter, looksFor, tellsAgain })
    const { timeZone, guard } = settings
    const { id: runId, period, otherTimeZone } = run
    this.agenda = new Agenda({ ledger, request, accept, timeZone, guard, period, runId, otherTimeZone })
    const onHeld = ({ id, email }: UserToServe, hold: UserHold) => {
      users.add(id, true)
      if (hold.by === 'user' && this.tellsHeld) this.heldAgain++
      else this.tellHold(hold, email)
    }
    const planned = new PlannedPushes({ ledger, worker, run, settings, reporter, stop, onHeld })
    const { takeover, owedOnly } = scope
    const patienceMs = owedOnly ? owedPatienceMs : Number.POSITIVE_INFINITY
    const ofRun = { worker, run, records, planned, users, receiver, reporter, stop, takeover, patienceMs }
    this.tools = { ledger, wire, clock, vault, settings, ...ofRun }
    worker.hasRecords = () => {
      // what was read of another server may mean something else on this one
      planned.forget()
      this.loop?.lookAnew()
      return records.areThere()
    }
  }

  async execute(): Promise<PushEnd> {
    await this.tools.ledger.attempts.endFarPauses()
    const already = await this.prepare()
    let facts = await this.playRound(false)
    for (let round = 1; ; round++) {
      const next = nextRound(facts, round)
      if (next === 'no' || (next === 'afterLeases' && !(await this.isMoreLeft()))) break
      if (next === 'afterLeases') await this.findWork()
      else this.counted = facts.left
      this.tools.users.leftOwed.clear()
      facts = await this.playRound(next === 'again')
    }
    return await this.end(already, facts)
  }

  /** Sends all that it finds; `isAgain`: skipped users have been reported already. */
  private async playRound(isAgain: boolean): Promise<RoundFacts> {
    this.loop = new PushLoop(this.tools, this.pushes(isAgain))
    return await this.findFacts(await this.loop.run())
  }

  /** The result of a round, on a server that has all records of the run. */
  private async findFacts(loop: LoopEnd): Promise<RoundFacts> {
    // a process with a range of users may have died while attempts were under way, and new users may have come
    const left = await this.countLeft()
    const { worker, stop, planned, users } = this.tools
    worker.lost.throwIfAborted()
    const { scope, isHeld, wasHeldBefore, heldAgain } = this
    const { delivered, failed, unknown, pending } = this.tally
    return {
      scope,
      loop,
      left,
      delivered,
      failed,
      unknown,
      pending,
      heldAgain,
      isStopped: stop.aborted,
      guard: isHeld ? (wasHeldBefore ? 'holdsAgain' : 'holds') : 'lets',
      heldUsers: planned.heldUsers,
      leftOwed: users.leftOwed.size,
    }
  }

  /** Records how the run ended. */
  private async conclude(facts: RoundFacts): Promise<RunEnd> {
    const { ledger, run, worker } = this.tools
    for (;;) {
      const end = judgeRun(facts)
      const { outcome, cameToEnd, heldBy } = end
      const heldByAnswers = heldBy?.by === 'answers' ? toReason(heldBy) : undefined
      const { heldUsers } = facts
      if (await ledger.runs.end(run.id, worker.server, { outcome, cameToEnd, heldUsers, heldByAnswers })) return end
      // another server answers: it is counted anew, if that server has the records of the run
      worker.distrust()
      await ledger.rideOut(() => worker.renew())
      facts.left = await this.countLeft()
      worker.lost.throwIfAborted()
    }
  }

  private async end(already: number, facts: RoundFacts): Promise<PushEnd> {
    const { ledger, reporter, planned, users } = this.tools
    const end = await this.conclude(facts)
    const { heldBy, cameToEnd, ok, toldBefore } = end
    const { isStopped: stopped, heldUsers, heldAgain } = facts
    if (heldBy) this.tellHold(heldBy)
    if (end.closes)
      await ledger.runs.closeInterrupted(
        this.agenda.interrupted.map(({ id }) => id),
        heldUsers,
      )
    if (!stopped && facts.loop.is === 'done' && !this.scope.owedOnly)
      for (const line of await this.named.findUntold(ledger.users, users)) reporter.line(line)
    tellLeftOwed(reporter, facts.leftOwed)
    if (heldAgain > 0)
      reporter.note(`Users held back: ${heldAgain}, as a push before this one told; see leadpush status.`)
    const summary = this.summarize(already, facts)
    reporter.line(summary)
    const held = this.isHeld || heldBy !== undefined || heldUsers > planned.slowUsers
    return { summary, stopped, cameToEnd, ok, held, toldBefore }
  }

  private summarize(already: number, { left, heldUsers, heldAgain }: RoundFacts): SummaryLine {
    const { deliveries, delivered, failed, unknown, skipped, leads, bytes } = this.tally
    const counted = { skipped, heldUsers: heldUsers - heldAgain, uncounted: left.uncounted }
    const { named } = this.scope
    const { run, records, users, planned } = this.tools
    return {
      type: 'summary',
      period: run.period,
      users: named.length > 0 ? named.length : users.totalWith(counted),
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
      seconds: Math.round(records.ageMs) / 1_000,
      ...(this.allowed !== undefined && { allowedPerSecond: Math.round(this.allowed * 100) / 100 }),
      ...(this.context.settings.sameHouse === 'once' && { sameHouse: planned.sameHouse }),
    }
  }

  /** The run resumes only runs that served all but the users whom the guard held back. */
  private get tellsHeld(): boolean {
    const { interrupted } = this.agenda
    return this.scope.command === 'resume' && interrupted.length > 0 && interrupted.every(({ cameToEnd }) => cameToEnd)
  }

  /** Finds the work and reports how much it is; returns how many users had their weekly delivery before. */
  private async prepare(): Promise<number> {
    const { named, limit } = this.scope
    const { reporter } = this.tools
    if (named.length > 0) {
      reporter.total(named.length)
      return 0
    }
    await this.findWork()
    reporter.total(Math.min(this.counted.free, limit))
    return this.context.request.what === 'all' ? this.counted.served : 0
  }

  /** Finds the runs to resume and the number of users to serve, and asks the guard. */
  private async findWork(): Promise<void> {
    const { agenda } = this
    const { ledger, run } = this.tools
    const wasAsked = agenda.verdict !== undefined
    await agenda.look()
    if (!wasAsked) await this.recordVerdict()
    this.counted = await agenda.count()
    const hold = agenda.findHold(this.counted)
    if (hold === undefined || this.isHeld) return
    this.isHeld = true
    this.wasHeldBefore = await ledger.runs.wasHeldBefore(run.period, run.id)
    this.tellHold(hold)
  }

  private async recordVerdict(): Promise<void> {
    const { ledger, records } = this.tools
    const { accept: accepted = false } = this.context
    const { verdict } = this.agenda
    const { run } = records
    if (verdict === undefined) return
    const held = verdict.held && { by: verdict.held.by, reason: toReason(verdict.held) }
    records.note(await ledger.runs.recordVerdict(run, { ...verdict, held, accepted }), run)
  }

  /** `user`: the only user whom it concerns. */
  private tellHold(hold: Hold, user?: string): void {
    this.tools.reporter.line({ type: 'skip', ...(user !== undefined && { user }), reason: toReason(hold) }, hold)
  }

  private async *pushes(isAgain: boolean): AsyncGenerator<UserPush> {
    const { limit } = this.scope
    const { planned, reporter } = this.tools
    for await (const step of this.agenda.steps(this.counted, isAgain)) {
      if ('skip' in step) reporter.line(step.skip)
      else if ('users' in step) yield* planned.ofUsers(step.users, step.kind)
      else {
        for await (const push of planned.ofPass(step.pass, this.counted.free, () => limit - this.served)) {
          if (this.served >= limit) break
          yield push
          this.served++
        }
      }
    }
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

  /** Counts the users whom this run left owed, and the users whom other processes are working on. */
  private async countLeft(): Promise<CountedUsers> {
    const { agenda, scope } = this
    const { ledger, worker, users } = this.tools
    const left = await agenda.count(worker.ids, users.remembered)
    if (scope.left === 'asked') return { ...left, free: users.leftOwed.size }
    return { ...left, elsewhere: left.elsewhere + (await ledger.users.countElsewhere(agenda.passes, worker.ids)) }
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
    const records = new RunRecords({ ledger, worker, run, start, clock, startedAt })
    try {
      return await new PushRun(context, worker, run, records).execute()
    } catch (error) {
      throw worker.lost.aborted ? await records.noteLoss() : error
    }
  }
  return await withWorker(ledger, settings.leaseMs, push, clock)
}
