/**
 * The outcomes of attempts on their way to the ledger: they gather, and one statement records several. It is a statement of its own, or
 * the next one that begins pushes.
 */
import type { Clock, Timer, Turn } from '../../base/clock.ts'
import type { RecordedOutcome } from '../../deliveries/record.ts'

const outcomesPerStatement = 256
/** How long an outcome waits for others, so that one statement records several. */
const gatherMs = 10

/** Whether `n` of at most `max` rows are worth a statement now: a statement costs nearly the same for one row and for many. */
export const isWorthStatement = (n: number, max: number) => n * 4 >= max * 3

/**
 *   resting ── put ──► gathering ──┐
 *      │                           ├─► recording ──► resting
 *      ├── put, enough ──► turning ┘
 *      └── lend, also of gathering and turning ──► lent ── takeBack ──► resting
 */
type State =
  | { is: 'resting' }
  /** For some milliseconds. */
  | { is: 'gathering'; timer: Timer }
  /** Enough are there. If the loop begins pushes in this turn, their statement takes the outcomes along. */
  | { is: 'turning'; turn: Turn }
  | { is: 'recording'; done: Promise<void> }
  /** The first ones are with a statement that begins pushes. */
  | { is: 'lent' }

export interface OutcomeQueueContext {
  clock: Clock
  /** How many attempts may be under way. */
  concurrency: number
  /** How many attempts have no recorded outcome. */
  underWay(): number
  /** Records these, and calls `drop` for them. */
  record(outcomes: readonly RecordedOutcome[]): Promise<void>
  /** Outcomes were recorded, or recording them failed for good. */
  onRecorded(failure?: unknown): void
}

export class OutcomeQueue {
  private state: State = { is: 'resting' }
  private readonly waiting: RecordedOutcome[] = []
  private readonly context: OutcomeQueueContext

  constructor(context: OutcomeQueueContext) {
    this.context = context
  }

  get isEmpty(): boolean {
    return this.waiting.length === 0 && this.state.is !== 'recording'
  }

  /** How many outcomes the next statement that begins pushes records. */
  get toLend(): number {
    return this.state.is === 'recording' ? 0 : Math.min(this.waiting.length, outcomesPerStatement)
  }

  put(outcome: RecordedOutcome): void {
    this.waiting.push(outcome)
    this.schedule()
  }

  /** The outcomes for a statement that begins pushes; `takeBack` follows, whether or not they were recorded. */
  lend(): RecordedOutcome[] {
    const lent = this.first()
    if (this.state.is !== 'recording') this.change({ is: 'lent' })
    return lent
  }

  takeBack(): void {
    if (this.state.is === 'lent') this.change({ is: 'resting' })
    this.schedule()
  }

  /** The first `count` outcomes are recorded. */
  drop(count: number): void {
    this.waiting.splice(0, count)
  }

  /** Resolves once the statement under way has recorded its outcomes. */
  async recorded(): Promise<void> {
    if (this.state.is === 'recording') await this.state.done
  }

  private first(): RecordedOutcome[] {
    return this.waiting.slice(0, this.toLend)
  }

  private change(state: State): void {
    const { clock } = this.context
    if (this.state.is === 'gathering') clock.cancel(this.state.timer)
    if (this.state.is === 'turning') clock.cancelSoon(this.state.turn)
    this.state = state
  }

  /** Waits shortly for the other attempts under way. */
  private schedule(): void {
    const { length } = this.waiting
    if (length === 0 || (this.state.is !== 'resting' && this.state.is !== 'gathering')) return
    const { clock, concurrency, underWay } = this.context
    const isEnough = length >= underWay() || isWorthStatement(length, concurrency)
    if (isEnough) this.change({ is: 'turning', turn: clock.soon(() => this.record()) })
    else if (this.state.is === 'resting')
      this.change({ is: 'gathering', timer: clock.after(gatherMs, () => this.record()) })
  }

  private record(): void {
    const { record, onRecorded } = this.context
    const end = (failure?: unknown) => {
      this.change({ is: 'resting' })
      if (failure === undefined) this.schedule()
      onRecorded(failure)
    }
    const done = record(this.first()).then(() => end(), end)
    this.change({ is: 'recording', done })
  }
}
