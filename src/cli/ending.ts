/** Ends a command early, in the middle of work that need not be finished: open databases are closed, and the process exits. */
import type { Io } from './io.ts'
import { exitCodes, type StopSignal, stopSignals } from './signals.ts'

/** A database that does not close in this time is left open: one that is away must not hold up the end. */
const endMsMax = 3_000

/** Work to do before the end; `signal`: what ends the process. */
type LastWork = (signal: StopSignal | undefined) => Promise<void>

export class Ending {
  private readonly io: Pick<Io, 'exit'>
  private readonly msMax: number
  private readonly works = new Set<LastWork>()
  private hasBegun = false

  constructor(io: Pick<Io, 'exit'>, msMax = endMsMax) {
    this.io = io
    this.msMax = msMax
  }

  /** Whether the process is ending: errors because of a closed database are not reported then. */
  get isUnderWay(): boolean {
    return this.hasBegun
  }

  /** Calls `work` if the process ends early. Returns a function that cancels this. */
  before(work: LastWork): () => void {
    this.works.add(work)
    return () => void this.works.delete(work)
  }

  /** Does what is to be done before, also stopping an embedded server, and exits. */
  async begin(exitCode: number): Promise<void> {
    this.hasBegun = true
    const signal = stopSignals.find((each) => exitCodes[each] === exitCode)
    const done = Promise.allSettled([...this.works].map((work) => work(signal)))
    await Promise.race([done, new Promise((resolve) => setTimeout(resolve, this.msMax))])
    this.io.exit(exitCode)
  }
}
