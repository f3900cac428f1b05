/** Ends a command early: open databases are closed, and the process exits. */
import type { Io } from './io.ts'
import type { Log } from './log.ts'
import { exitCodes } from './signals.ts'

/** A database that does not close in this time is left open: one that is away must not hold up the end. */
const endMsMax = 3_000

export class Ending {
  private readonly io: Pick<Io, 'exit'>
  private readonly msMax: number
  /** Work to do first: every database that is open or being opened must be closed. */
  private readonly works = new Set<() => Promise<void>>()
  private hasBegun = false
  /** How many databases are being opened, and the log that has reported the wait for one. */
  private opening = 0
  private waitingLog: Log | undefined

  constructor(io: Pick<Io, 'exit'>, msMax = endMsMax) {
    this.io = io
    this.msMax = msMax
  }

  /** Whether the process is ending: errors because of a closed database are not reported then. */
  get isUnderWay(): boolean {
    return this.hasBegun
  }

  /** Calls `work` if the process ends early. Returns a function that cancels this. */
  before(work: () => Promise<void>): () => void {
    this.works.add(work)
    return () => void this.works.delete(work)
  }

  /** Counts a database that is being opened until that is settled; `isSettled` tells. */
  watchOpening(opening: Promise<unknown>): { readonly isSettled: boolean } {
    const watched = { isSettled: false }
    const settle = () => {
      this.opening--
      watched.isSettled = true
    }
    this.opening++
    opening.then(settle, settle)
    return watched
  }

  /** `log` has reported that the command waits for its database. */
  noteWaiting(log: Log): void {
    this.waitingLog = log
  }

  /** Ends the process in the middle of a command that has nothing to finish, and stops an embedded server. */
  async begin(exitCode: number): Promise<void> {
    this.hasBegun = true
    const signal = Object.entries(exitCodes).find(([, code]) => code === exitCode)?.[0]
    if (signal && this.opening > 0)
      this.waitingLog?.info(`${signal}: ended while it waited for the database; nothing was begun.`)
    const done = Promise.allSettled([...this.works].map((work) => work()))
    await Promise.race([done, new Promise((resolve) => setTimeout(resolve, this.msMax))])
    this.io.exit(exitCode)
  }
}
