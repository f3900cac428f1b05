/**
 * From users to planned pushes: those of a pass stretch by stretch, so that any number of processes share them, or some by
 * themselves. Whom the guard holds back is told, counted and left.
 */
import { rideOut } from '../db/away.ts'
import type { Worker } from '../db/leases.ts'
import type { Database } from '../db/open.ts'
import { uniqueKey, weeklyKey } from '../deliveries/keys.ts'
import type { DeliveryKind } from '../deliveries/ledger.ts'
import type { Run } from '../deliveries/runs.ts'
import type { WarningLine } from '../index.ts'
import type { LeadStore } from '../leads/lead-store.ts'
import { skipWithoutQueries } from './agenda.ts'
import { findReasonToHold } from './guard.ts'
import { type Planned, plannedMax } from './loop.ts'
import { oneAhead } from './one-ahead.ts'
import { Planner, type UserGroup, type UserPlan, usersPerGroupMax } from './planner.ts'
import type { PushReporter } from './reporter.ts'
import { type Cursor, type Pass, releaseShares, takeShare, type UserToServe } from './users-to-serve.ts'

const shareUsersMin = 16
const shareUsersMax = 1_000
/** So many stretches at least, so that several processes find something to do. */
const sharesWanted = 32

export interface PlannedPushesContext {
  db: Database
  worker: Worker
  run: Run
  settings: { dataSource: string; concurrency: number }
  reporter: PushReporter
  stop: AbortSignal
}

interface PushKind {
  kind: DeliveryKind
  /** What a push claims for its user; null: nothing. */
  scope: string | null
}

export class PlannedPushes {
  /** So many users were held back, by the guard, or since a query of theirs took too long. */
  heldUsers = 0
  /** Those of them with such a query. */
  slowUsers = 0

  private readonly context: PlannedPushesContext
  private readonly planner: Planner
  /** Nobody was served in these who was held back: they stay ours, or they would be found again and again. */
  private readonly heldStretches: Cursor[] = []

  constructor(context: PlannedPushesContext) {
    this.context = context
    this.planner = new Planner(context.db, context.run.seenSince)
  }

  /** The leads that what it planned is made of. */
  get leads(): LeadStore {
    return this.planner.leads
  }

  /**
   * Those of a pass, stretch by stretch, until nobody is left whom another process doesn't have, or there is no more `room`.
   * `toServe` users are expected.
   */
  async *ofPass(pass: Pass, toServe: number, room: () => number): AsyncGenerator<Planned> {
    for await (const { stretch, group } of oneAhead(this.readPass(pass, toServe, room))) {
      const { heldUsers } = this
      yield* this.ofPlans(this.planner.planGroup(group), pass)
      if (this.heldUsers > heldUsers && !this.heldStretches.includes(stretch)) this.heldStretches.push(stretch)
    }
  }

  private async *readPass(
    pass: Pass,
    toServe: number,
    room: () => number,
  ): AsyncGenerator<{ stretch: Cursor; group: UserGroup }> {
    const { db, worker, settings, stop } = this.context
    const size = Math.min(shareUsersMax, Math.max(shareUsersMin, Math.ceil(toServe / sharesWanted)))
    const taken: (Cursor & { users: number })[] = []
    // read and not begun at most: their stretches stay ours
    const unbegunMax = 2 * usersPerGroupMax + plannedMax + settings.concurrency
    let cursor: Cursor | undefined
    while (!stop.aborted && room() > 0) {
      const take = { workerId: worker.id, pass, cursor, size: Math.min(size, room()) }
      let uncertain = false
      const users = await rideOut(
        async () => {
          // a try whose answer was lost may have taken a stretch that nobody would look into then
          if (uncertain) await releaseShares(db, take.workerId, pass, [...this.heldStretches, ...taken])
          return await takeShare(db, take)
        },
        () => {
          uncertain = true
        },
      )
      const first = users[0]
      if (first === undefined) {
        if (cursor === undefined) return
        // what others had taken and left lies behind
        cursor = undefined
        continue
      }
      const read = taken.reduce((sum, stretch) => sum + stretch.users, 0)
      if (taken[0] !== undefined && read - taken[0].users >= unbegunMax) {
        taken.shift()
        await rideOut(() => releaseShares(db, take.workerId, pass, [...this.heldStretches, ...taken, first]))
      }
      const stretch = { place: first.place, id: first.id, users: users.length }
      taken.push(stretch)
      cursor = users.at(-1)
      for await (const group of this.planner.read(users, pass.compared)) yield { stretch, group }
    }
  }

  /** Those of `users`, in their order. */
  ofUsers(users: readonly UserToServe[], kind: PushKind): AsyncGenerator<Planned> {
    return this.ofPlans(this.planner.plan(users), kind)
  }

  private async *ofPlans(plans: AsyncIterable<UserPlan>, { kind, scope }: PushKind): AsyncGenerator<Planned> {
    for await (const plan of plans) {
      const reason = findReasonToHold(plan)
      if (reason === undefined) this.report(plan)
      else {
        this.heldUsers++
        if (plan.tooSlow !== undefined) this.slowUsers++
        this.context.reporter.line({ type: 'skip', user: plan.user.email, reason })
      }
      if (reason === undefined && plan.deliveries.length > 0) yield this.toPush(plan, kind, scope)
    }
  }

  /** `pushes` planned anew, without what was erased; `erasures` are counted now. */
  async again(pushes: readonly Planned[], erasures: number): Promise<Planned[]> {
    await this.planner.forgetErased(erasures)
    const again: Planned[] = []
    for (const { userId, email, kind, scope } of pushes) {
      for await (const push of this.ofUsers([{ id: userId, email }], { kind, scope })) again.push(push)
    }
    return again
  }

  private report({ user, deliveries, tooLarge }: UserPlan): void {
    const { reporter } = this.context
    if (deliveries.length === 0) reporter.line(skipWithoutQueries(user.email))
    for (const href of tooLarge) reporter.line(tooLargeWarning(user.email, href))
  }

  private toPush(
    { user, deliveries, erasures, queriesMark }: UserPlan,
    kind: DeliveryKind,
    scope: string | null,
  ): Planned {
    const { settings, run } = this.context
    const keyOf = (part: number) =>
      kind === 'weekly' ? weeklyKey(settings.dataSource, user.email, run.period, part) : uniqueKey()
    return {
      userId: user.id,
      email: user.email,
      kind,
      scope,
      erasures,
      queriesMark,
      deliveries: deliveries.map((delivery) => ({ ...delivery, idempotencyKey: keyOf(delivery.part) })),
    }
  }
}

export function tooLargeWarning(user: string, href: string): WarningLine {
  const message = 'the listing alone exceeds a request of 5,000,000 bytes and was left out'
  return { type: 'warning', user, href, message }
}
