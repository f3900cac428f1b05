/**
 * The deliveries that a push would send now, from the same agenda and the same planner: interrupted deliveries first, from their
 * recipes, then new ones. Writes nothing.
 */
import { sql } from 'kysely'
import type { Database } from '../../db/open.ts'
import { buildBody } from '../../deliveries/body.ts'
import { type DeliveryKind, isAbandoned, isTooLate, isWanted, type LedgerDelivery } from '../../deliveries/ledger.ts'
import { type PlannedDelivery, sumLeads } from '../../deliveries/plan.ts'
import { decodeRecipe } from '../../deliveries/recipe.ts'
import { findOpenForcedBy, findOtherTimeZone, findPeriod, type Run } from '../../deliveries/runs.ts'
import type { DeliveryLine, PushLine, SummaryLine } from '../../index.ts'
import { databaseLedger } from '../database/database-ledger.ts'
import { Planner, type UserPlan } from '../database/planner.ts'
import { findTrouble } from '../database/receivers.ts'
import { countUsersElsewhere } from '../database/users-left.ts'
import { findUsersToServe, isInRangeOfAnother } from '../database/users-to-serve.ts'
import { toReason, type WeekHold } from '../hold.ts'
import type { PushSettings } from '../push-request.ts'
import { Tally, toDeliveryLine } from '../reporter.ts'
import type { PushRequest } from '../run/scope.ts'
import { Agenda, skipWithoutQueries } from '../whom/agenda.ts'
import { judgePlan } from '../whom/guard.ts'
import type { Cursor, Pass, UserToServe } from '../whom/pass.ts'
import { tooLargeWarning } from '../whom/planned-pushes.ts'
import { UserCount } from '../whom/user-count.ts'
import { Spread } from './spread.ts'

export type PreviewSettings = Pick<PushSettings, 'timeZone' | 'maxLeadAgeMs' | 'guard' | 'sameHouse'>

export type PreviewRequest = Exclude<PushRequest, { what: 'resume' }>

export interface PreviewedDelivery {
  line: DeliveryLine
  /** The number of matches of its queries, before repeats are dropped; null for a delivery that is already begun. */
  matches: number | null
  /** The bytes that would be sent. */
  readBody(): Promise<Buffer>
}

/** The state of a delivery that has had so many attempts. */
const plannedAfter = (attempts: number) => ({ status: 'planned', attempts, httpStatus: null, error: null }) as const

const usersPerPage = 500
const deliveriesPerPage = 100

export class Preview {
  readonly tally = new Tally()
  /** What the guard held back, or all for the time zone. */
  heldBy: WeekHold['by'] | 'users' | undefined
  /** Only new deliveries. */
  readonly spread = new Spread()
  readonly period: string
  private lastPlan: UserPlan | undefined
  private readonly db: Database
  private readonly request: PreviewRequest
  private readonly planner: Planner
  private readonly settings: PreviewSettings
  private readonly users = new UserCount()
  /** Users who are left out one by one. */
  private leftOut = 0
  /** Listings that are left out because of another one of their house, summed over users. */
  private sameHouse = 0
  /** All users whom the guard holds back. */
  private owed = 0
  /** Users held back who get no other delivery either. */
  private uncounted = 0
  private already = 0
  /** Users whom running pushes are working on. */
  private elsewhere = 0

  private constructor(
    db: Database,
    request: PreviewRequest,
    settings: PreviewSettings & Pick<Run, 'period' | 'seenSince'>,
  ) {
    this.db = db
    this.request = request
    this.settings = settings
    this.period = settings.period
    this.planner = new Planner(db, settings)
  }

  static async create(db: Database, request: PreviewRequest, settings: PreviewSettings): Promise<Preview> {
    return new Preview(db, request, { ...settings, ...(await findPeriod(db, settings)) })
  }

  /** The versions of the listings in the plan of the last user. */
  get versionIds(): number[] {
    const deliveries = this.lastPlan?.deliveries ?? []
    return deliveries.flatMap(({ contents }) => contents.map(({ versionId }) => versionId))
  }

  /** All deliveries and lines, in the order of a push. */
  async *lines(): AsyncGenerator<PreviewedDelivery | Exclude<PushLine, DeliveryLine>> {
    for await (const found of this.find()) {
      this.tally.add('line' in found ? found.line : found)
      yield found
    }
  }

  summary(seconds: number): SummaryLine {
    const { tally, users, leftOut, uncounted, period, already, elsewhere, owed, sameHouse } = this
    const total = users.totalWith({ skipped: tally.skipped, leftOut, uncounted })
    const of = { period, users: total, already, elsewhere, owed, seconds }
    return { ...tally.summary(of), ...(this.settings.sameHouse === 'once' && { sameHouse }) }
  }

  private async *find(): AsyncGenerator<PreviewedDelivery | Exclude<PushLine, DeliveryLine>> {
    const { db, request, period, settings } = this
    const otherTimeZone = await findOtherTimeZone(db, settings.timeZone)
    const forcedBy = await findOpenForcedBy(db, period)
    const of = { ledger: databaseLedger(db), request, runId: undefined, forcedBy, otherTimeZone, accept: false }
    const agenda = new Agenda({ ...settings, ...of, period })
    await agenda.look()
    const counted = await agenda.count()
    if (request.what === 'all') this.already = counted.served
    if (request.what !== 'user' && request.what !== 'owed')
      this.elsewhere = counted.elsewhere + (await countUsersElsewhere(db, agenda.passes, []))
    if (request.what === 'all') yield* this.findInterrupted()
    for await (const step of agenda.steps(counted)) {
      if ('skip' in step) yield step.skip
      else if ('users' in step) yield* this.planSome(step.users, step.kind)
      else yield* this.planPass(step.pass)
    }
    const trouble = request.what === 'user' ? undefined : (await findTrouble(db))?.trouble
    if (trouble?.is === 'refuses' && this.tally.deliveries > 0)
      yield { type: 'skip', reason: toReason({ by: 'refusal', known: true, status: trouble.status, untilNextMs: 0 }) }
    if (agenda.verdict?.held === undefined) return
    const left = await agenda.count([], this.users.remembered)
    this.owed += left.free
    this.uncounted += left.uncounted
    const hold = agenda.findHold(left)
    if (!hold) return
    this.heldBy = hold.by
    yield { type: 'skip', reason: toReason(hold) }
  }

  /** Leaves out users whom running pushes are working on, as a push does. */
  private async *planPass(pass: Pass) {
    const free = { ...pass, only: sql<boolean>`not ${isInRangeOfAnother(pass, [])}` }
    let cursor: Cursor | undefined
    do {
      const users = await findUsersToServe(this.db, free, cursor, usersPerPage)
      yield* this.planSome(users, pass.kind, pass.compared)
      cursor = users.at(-1)
    } while (cursor)
  }

  private async *planSome(users: readonly UserToServe[], kind: DeliveryKind, compared?: readonly string[]) {
    for await (const plan of this.planner.plan(users, compared)) {
      this.lastPlan = plan
      const hold = judgePlan(plan)
      if (hold) {
        this.heldBy ??= 'users'
        this.leftOut++
        this.owed++
        if (!this.users.remembers(plan.user.id)) this.uncounted++
        yield { type: 'skip', user: plan.user.email, reason: toReason(hold) } as const
        continue
      }
      if (plan.deliveries.length === 0) yield skipWithoutQueries(plan.user.email)
      else {
        this.users.add(plan.user.id, kind === 'subscription')
        this.sameHouse += plan.sameHouse
        this.spread.add(plan.user.email, sumLeads(plan.deliveries))
      }
      for (const href of plan.tooLarge) yield tooLargeWarning(plan.user.email, href)
      for (const delivery of plan.deliveries) yield this.preview(plan, delivery, kind)
    }
  }

  private preview({ user, matches }: UserPlan, delivery: PlannedDelivery, kind: DeliveryKind): PreviewedDelivery {
    const planned = { email: user.email, kind, idempotencyKey: null, period: this.period, ...delivery }
    return {
      line: toDeliveryLine(planned, plannedAfter(0)),
      matches: delivery.part === 1 ? matches : null,
      readBody: () => this.readBody(delivery),
    }
  }

  private async readBody(delivery: Pick<PlannedDelivery, 'queryList' | 'contents' | 'bytes'>): Promise<Buffer> {
    const { queryList, contents, bytes } = delivery
    const leads = await this.planner.readJson(contents)
    if (!leads) throw new Error('a listing was erased while its delivery was previewed')
    return buildBody(queryList, leads, bytes)
  }

  /** Begun deliveries with an attempt left that no living process is working on. */
  private async *findInterrupted(): AsyncGenerator<PreviewedDelivery> {
    let lastKey = ''
    for (;;) {
      const { rows } = await sql<Omit<LedgerDelivery, 'email'> & { email: string; queryList: string; recipe: Buffer }>`
        select u.id as "userId", u.email, d.kind, d.idempotency_key as "idempotencyKey", d.period, d.part, d.parts, d.queries, d.leads,
          d.bytes, d.attempts, d.query_list as "queryList", d.recipe
        from deliveries d join users u on u.id = d.user_id
        where d.status = 'pending' and d.attempts < 2 and d.end_reason is null and ${isWanted} and not ${isTooLate} and ${isAbandoned('all')}
          and d.idempotency_key > ${lastKey}
        order by d.idempotency_key limit ${deliveriesPerPage}
      `.execute(this.db)
      for (const { userId, queryList, recipe, ...row } of rows) {
        const contents = decodeRecipe(recipe).map((versionId) => ({ versionId }))
        const delivery = { queryList, contents, bytes: row.bytes }
        this.users.add(userId, true)
        const line = toDeliveryLine(row, plannedAfter(row.attempts))
        yield { line, matches: null, readBody: () => this.readBody(delivery) }
      }
      if (rows.length < deliveriesPerPage) return
      lastKey = rows.at(-1)?.idempotencyKey ?? ''
    }
  }
}
