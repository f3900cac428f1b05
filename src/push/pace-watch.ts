/**
 * The pace of a push (contract 4.12): follows the receiver's answers, shares what it finds with other processes and later runs
 * through the table `receivers`, and reports it.
 */
import { sql } from 'kysely'
import { outageLookMs, paceDays, retryAfterMsMax } from '../base/limits.ts'
import { rideOut } from '../db/away.ts'
import type { Database } from '../db/open.ts'
import type { AttemptOutcome } from '../deliveries/attempt.ts'
import type { RecordedAttempt } from '../deliveries/ledger.ts'
import { hashReceiver } from './known-trouble.ts'
import { type KnownPace, Pace } from './pace.ts'
import type { PushReporter } from './reporter.ts'

export interface PaceWatchContext {
  db: Database
  settings: { receiverUrl: string; ratePerSecond: number | undefined; retryDelayMs: number }
  /** Whether the pace follows a receiver that asks for less. */
  follows: boolean
  reporter: PushReporter
}

const now = () => performance.now()
const kindOf = ({ attempt }: Pick<RecordedAttempt, 'attempt'>) => (attempt === 1 ? 'first' : 'second')

export class PaceWatch {
  private readonly context: PaceWatchContext
  private readonly pace: Pace
  private readonly id: Buffer
  private timer: NodeJS.Timeout | undefined
  private sharing: Promise<void> | undefined
  /** What the database has from this process; undefined: nothing. */
  private told: number | null | undefined
  private isReported = false
  private hasEnded = false

  constructor(context: PaceWatchContext) {
    const { receiverUrl, ratePerSecond, retryDelayMs } = context.settings
    this.context = context
    this.pace = new Pace(ratePerSecond, { retryDelayMs })
    this.id = hashReceiver(receiverUrl)
  }

  /** Attempts a second that may begin; undefined: no limit. */
  get ratePerSecond(): number | undefined {
    return this.pace.ratePerSecond
  }

  async begin(): Promise<void> {
    if (!this.context.follows) return
    this.learn(await rideOut(() => this.find()))
    this.timer = setInterval(() => this.share(), outageLookMs)
    this.timer.unref()
  }

  /** Keeps what was found for the next run. */
  async end(): Promise<void> {
    clearInterval(this.timer)
    this.hasEnded = true
    await this.sharing
    if (this.context.follows && (this.pace.isSlowed || this.told !== undefined)) await rideOut(() => this.record())
  }

  /** Which of the attempts that are ready may begin now, and is counted; or in how many milliseconds one may. */
  take(ready: readonly RecordedAttempt[]): RecordedAttempt | number {
    let waitMs = Number.POSITIVE_INFINITY
    for (const kind of ['second', 'first'] as const) {
      // without a limit all go in their order
      const next = this.pace.isSlowed ? ready.find((attempt) => kindOf(attempt) === kind) : ready[0]
      if (next === undefined) continue
      const untilNext = this.pace.take(now(), kindOf(next))
      if (untilNext <= 0) return next
      waitMs = Math.min(waitMs, untilNext)
    }
    return waitMs
  }

  /** How long no second attempt may begin: first attempts show whether the receiver takes any again. */
  untilSecond(): number {
    const waitMs = this.pace.untilSecond(now())
    // a turn of a few milliseconds is the loop's to wait for
    return waitMs > 50 ? waitMs : 0
  }

  note(attempt: RecordedAttempt, { httpStatus, retryAfterMs, durationMs }: AttemptOutcome): void {
    const { follows, reporter } = this.context
    if (!follows) return
    const answer = { status: httpStatus ?? undefined, retryAfterMs: retryAfterMs ?? undefined, durationMs }
    const isNews = this.pace.note({ kind: kindOf(attempt), ...answer }, now())
    if (!isNews) return
    if (!this.isReported) reporter.note(`The receiver asks for less (HTTP ${httpStatus}): slowing down.`)
    this.isReported = true
    this.share(true)
  }

  noteNotMade(attempt: RecordedAttempt): void {
    this.pace.noteNotMade(kindOf(attempt))
  }

  private learn(known: KnownPace): void {
    this.pace.learn(known, now())
    this.report()
  }

  private report(): void {
    const { pace, context } = this
    context.reporter.pace(pace.isSlowed ? (pace.allowedRate(now()) ?? pace.ratePerSecond) : undefined)
  }

  /** Exchanges findings with other processes. A database that is away says so elsewhere. */
  private share(isNews = false): void {
    this.report()
    if (this.hasEnded || (this.sharing && !isNews)) return
    const before = this.sharing
    const sharing = (async () => {
      await before
      const rate = this.pace.known(now()).allowedRate
      const isChanged =
        this.told !== undefined && rate !== this.told && Math.abs((rate ?? 0) - (this.told ?? 0)) > (rate ?? 0) / 20
      if (isNews || isChanged) await this.record()
      this.learn(await this.find())
    })().catch(() => {})
    this.sharing = sharing.finally(() => {
      if (this.sharing === sharing) this.sharing = undefined
    })
  }

  private async find(): Promise<KnownPace> {
    const { rows } = await sql<KnownPace>`
      select coalesce(extract(epoch from case when paused_until - now() between interval '0' and ${retryAfterMsMax} * interval '1 millisecond'
          then paused_until - now() end) * 1000, 0)::double precision as "pausedMs",
        case when rate_at between now() - ${paceDays} * interval '1 day' and now() then rate end as "allowedRate"
      from receivers where url_sha256 = ${this.id}
    `.execute(this.context.db)
    return rows[0] ?? { pausedMs: 0, allowedRate: null }
  }

  private async record(): Promise<void> {
    const { pausedMs, allowedRate } = this.pace.known(now())
    const isFree = !this.pace.isSlowed
    await sql`
      insert into receivers as r (url_sha256, paused_until, rate, rate_at)
      values (${this.id}, now() + ${pausedMs} * interval '1 millisecond', ${allowedRate}, case when ${allowedRate}::float8 is not null then now() end)
      on conflict (url_sha256) do update set
        paused_until = case when r.paused_until > now() + ${retryAfterMsMax} * interval '1 millisecond' then excluded.paused_until
          else greatest(r.paused_until, excluded.paused_until) end,
        rate = case when ${isFree} then null else coalesce(excluded.rate, r.rate) end,
        rate_at = case when ${isFree} then null else coalesce(excluded.rate_at, r.rate_at) end
    `.execute(this.context.db)
    this.told = allowedRate
  }
}
