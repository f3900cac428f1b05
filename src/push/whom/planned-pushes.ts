/**
 * From users to planned pushes. The users of a pass are taken range by range, so that any number of processes share them. Users whom
 * the guard holds back are reported, counted and left.
 */
import { randomUUID } from 'node:crypto'
import { oneAhead } from '../../base/one-ahead.ts'
import type { Worker } from '../../db/leases.ts'
import { Bodies } from '../../deliveries/bodies.ts'
import { weeklyKey } from '../../deliveries/keys.ts'
import type { PlannedPush } from '../../deliveries/record.ts'
import type { Run } from '../../deliveries/runs.ts'
import type { WarningLine } from '../../index.ts'
import type { LeadInBody, LeadWithJson } from '../../leads/lead-store.ts'
import { type UserPlan, usersPerGroupMax } from '../database/planner.ts'
import type { UserHold } from '../hold.ts'
import type { PlanSource } from '../ledger.ts'
import type { PushSettings, RunContext } from '../push-request.ts'
import { skipRemoved, skipWithoutQueries } from './agenda.ts'
import { judgePlan } from './guard.ts'
import { LeftOut, type LeftOutReason } from './left-out.ts'
import type { Cursor, Pass, UserToServe } from './pass.ts'

export const rangeUsersMin = 16
const rangeUsersMax = 1_000
/** The intended number of ranges, so that several processes find work. */
const rangesWanted = 32
/** The most warnings that are remembered as reported. */
const toldMax = 10_000
/** Planned pushes that wait to be begun: their users are kept from other processes. */
export const plannedMax = 64

export interface PlannedPushesContext extends Pick<RunContext, 'ledger' | 'reporter' | 'stop'> {
  worker: Worker
  run: Run
  settings: Pick<PushSettings, 'dataSource' | 'concurrency' | 'sameHouse'>
  /** A user is left out: reports that, and says why it is. */
  onHeld(user: UserToServe, hold: UserHold): LeftOutReason
}

type PushKind = Pick<PlannedPush, 'kind' | 'scope'> & Pick<Pass, 'compared'>

/** A planned push with the input of its plan, for planning it anew. */
export interface UserPush extends PlannedPush {
  by: PushKind
  /** The range in which its user was found; undefined: it was asked for by name, or drawn. */
  range: Cursor | undefined
}

export class PlannedPushes {
  /** Listings that were left out because of another one of their house, summed over users. */
  sameHouse = 0

  /** Forgets what it keeps of bodies along with the data that was read for them. */
  readonly bodies = new Bodies()
  /** For the whole run. */
  readonly leftOut = new LeftOut()

  private readonly context: PlannedPushesContext
  private readonly planner: PlanSource
  /** Ranges of a pass with users who were left out. This process keeps them: otherwise it would find these users again and again. */
  private readonly heldRanges = new Set<Cursor>()
  /** The reported warnings: a user may be planned anew. */
  private readonly told = new Set<string>()

  constructor(context: PlannedPushesContext) {
    this.context = context
    const { ledger, run, settings, worker, reporter } = context
    const live = { seenSince: run.seenSince, sameHouse: settings.sameHouse }
    const onErasure = () => reporter.note('Waiting for an erasure: `leads forget` is ending deliveries.')
    this.planner = ledger.planner(live, () => worker.server, onErasure)
  }

  /** The leads of a body, with their JSON; undefined if one of them is gone. */
  readJson(contents: readonly LeadInBody[]): Promise<LeadWithJson[] | undefined> {
    return this.planner.readJson(contents)
  }

  /**
   * The pushes of a pass, range by range, until other processes are working on all users that are left, or there is no more `room`.
   * `toServe`: the expected number of users, which decides the size of a range.
   */
  async *ofPass(pass: Pass, toServe: number, room: () => number): AsyncGenerator<UserPush> {
    const ranges = this.readPass(pass, toServe, room)
    // with a limit it takes only users whom it may serve: other processes would leave the others to it
    const isLimited = Number.isFinite(room())
    for await (const { range, plans } of isLimited ? ranges : oneAhead(ranges)) yield* this.ofPlans(plans, pass, range)
  }

  private async *readPass(
    pass: Pass,
    toServe: number,
    room: () => number,
  ): AsyncGenerator<{ range: Cursor; plans: AsyncIterable<UserPlan> }> {
    const { ledger, worker, settings, stop } = this.context
    const size = Math.min(rangeUsersMax, Math.max(rangeUsersMin, Math.ceil(toServe / rangesWanted)))
    const taken: (Cursor & { users: number })[] = []
    // the most users that can be read and not begun yet: this process must keep their ranges
    const unbegunMax = 2 * usersPerGroupMax + plannedMax + settings.concurrency
    let cursor: Cursor | undefined
    // all users of earlier looks are begun: users who have come to these ranges since then are found too
    this.heldRanges.clear()
    await ledger.rideOut(() => ledger.users.releaseRanges(worker.ids, pass))
    while (!stop.aborted && room() > 0) {
      const users = await ledger.rideOut(async (isRepeat) => {
        // a call whose answer was lost may have taken a range that otherwise nobody would look into
        if (isRepeat) await ledger.users.releaseRanges(worker.ids, pass, [...this.heldRanges, ...taken])
        for (;;) {
          const found = await ledger.users.takeRange({ worker, pass, cursor, size: Math.min(size, room()) })
          if (found !== undefined) return found
          if (stop.aborted) return []
          await worker.renew()
        }
      })
      const first = users[0]
      if (first === undefined) {
        if (cursor === undefined) return
        // ranges that other processes have abandoned lie behind the cursor
        cursor = undefined
        continue
      }
      const read = taken.reduce((sum, range) => sum + range.users, 0)
      if (taken[0] !== undefined && read - taken[0].users >= unbegunMax) {
        taken.shift()
        const kept = [...this.heldRanges, ...taken, first]
        await ledger.rideOut(() => ledger.users.releaseRanges(worker.ids, pass, kept))
      }
      const range = { homeKey: first.homeKey, id: first.id, users: users.length }
      taken.push(range)
      cursor = users.at(-1)
      const unheld = users.filter(({ id }) => !this.leftOut.has(id))
      if (unheld.length < users.length) this.heldRanges.add(range)
      for await (const plans of this.planner.planGroups(unheld, pass.compared)) yield { range, plans }
    }
  }

  /** The pushes of up to `count` users of a pass who are drawn at random from all who are owed it, the reserve first. */
  async draw(pass: Pass, count: number, reservedBelow: number): Promise<UserPush[]> {
    const pushes: UserPush[] = []
    // those who are left out stay owed: others lie behind them
    for (let among = count; pushes.length === 0; among *= 4) {
      const users = await this.context.ledger.users.draw(pass, among, reservedBelow)
      const free = users.filter(({ id }) => !this.leftOut.has(id)).slice(0, count)
      for await (const push of this.ofPlans(this.plansOf(free, pass.compared), pass, undefined)) pushes.push(push)
      if (users.length < among) break
    }
    return pushes
  }

  /** The pushes of `users`, in their order. */
  ofUsers(users: readonly UserToServe[], kind: 'subscription' | 'single'): AsyncGenerator<UserPush> {
    return this.ofPlans(this.plansOf(users, []), { kind, scope: null, compared: [] }, undefined)
  }

  private async *plansOf(users: readonly UserToServe[], compared: readonly string[]): AsyncGenerator<UserPlan> {
    for await (const group of this.planner.planGroups(users, compared)) yield* group
  }

  private async *ofPlans(
    plans: AsyncIterable<UserPlan>,
    by: PushKind,
    range: Cursor | undefined,
  ): AsyncGenerator<UserPush> {
    for await (const plan of plans) {
      const push = await this.toPush(plan, by, range)
      if (push) yield push
    }
  }

  /** Drops the data read from the database. */
  forget(): void {
    this.planner.forget()
    this.bodies.forget()
  }

  /**
   * `pushes` planned anew, without erased listings; `erasures` is the count now. Each keeps its keys: a statement whose answer was lost
   * may have begun it.
   */
  async again(pushes: readonly UserPush[], erasures: number): Promise<UserPush[]> {
    await this.planner.forgetErased(erasures)
    this.bodies.forget()
    const again: UserPush[] = []
    for (const by of new Set(pushes.map((push) => push.by))) {
      const ofUser = new Map(pushes.flatMap((push) => (push.by === by ? [[push.userId, push] as const] : [])))
      const users = [...ofUser.values()].map(({ userId: id, email }) => ({ id, email }))
      for await (const plan of this.plansOf(users, by.compared)) {
        const { range, deliveries } = ofUser.get(plan.user.id) ?? {}
        const push = await this.toPush(plan, by, range, deliveries)
        if (push) again.push(push)
      }
    }
    return again
  }

  private async report({ user, deliveries, tooLarge }: UserPlan): Promise<void> {
    const { ledger, reporter } = this.context
    if (deliveries.length === 0) {
      const { size: removed } = await ledger.users.findRemoved([user])
      reporter.line(removed > 0 ? skipRemoved(user.email) : skipWithoutQueries(user.email))
    }
    for (const href of tooLarge) {
      const what = `${user.id} ${href}`
      if (this.told.has(what)) continue
      if (this.told.size >= toldMax) this.told.clear()
      this.told.add(what)
      reporter.line(tooLargeWarning(user.email, href))
    }
  }

  /** Undefined if the user gets nothing, which is reported. `before`: the deliveries whose keys it keeps. */
  private async toPush(
    plan: UserPlan,
    by: PushKind,
    range: Cursor | undefined,
    before?: UserPush['deliveries'],
  ): Promise<UserPush | undefined> {
    const { user, deliveries, erasures, server, queriesMark } = plan
    const hold = judgePlan(plan)
    if (hold) {
      if (range !== undefined) this.heldRanges.add(range)
      // a user who was drawn may have been planned by the pass too
      if (!this.leftOut.has(user.id)) this.leftOut.add(user.id, this.context.onHeld(user, hold))
      return undefined
    }
    await this.report(plan)
    if (deliveries.length === 0) return undefined
    // when it is planned anew, it was counted before
    if (before === undefined) this.sameHouse += plan.sameHouse
    const { settings, run } = this.context
    const { kind, scope } = by
    const { id: userId, email } = user
    const newKey = (part: number) =>
      kind === 'weekly' ? weeklyKey(settings.dataSource, email, run.period, part) : randomUUID()
    const keyed = deliveries.map((delivery, at) => ({
      idempotencyKey: before?.[at]?.idempotencyKey ?? newKey(delivery.part),
      ...delivery,
    }))
    return { userId, email, deliveries: keyed, kind, scope, by, range, erasures, server, queriesMark }
  }
}

export function tooLargeWarning(user: string, href: string): WarningLine {
  const message = 'the listing alone exceeds a request of 5,000,000 bytes and was left out'
  return { type: 'warning', user, href, message }
}
