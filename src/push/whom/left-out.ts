/** The users whom a run leaves out although they are owed, each once and with the reason, and what follows from each reason. */

/** `told`: the guard holds the user, as an earlier push has reported; `slow`: one of the user's queries took too long. */
export type LeftOutReason = 'held' | 'told' | 'slow'

interface Rule {
  /** A skip line names the user. */
  hasLine: boolean
  changesExitCode: boolean
  /** The guard holds the user: `--accept` goes on. */
  isByGuard: boolean
}

const rules: Readonly<Record<LeftOutReason, Rule>> = {
  held: { hasLine: true, changesExitCode: true, isByGuard: true },
  told: { hasLine: false, changesExitCode: false, isByGuard: true },
  slow: { hasLine: true, changesExitCode: true, isByGuard: false },
}

export class LeftOut {
  private readonly reasons = new Map<number, LeftOutReason>()

  get size(): number {
    return this.reasons.size
  }

  has(userId: number): boolean {
    return this.reasons.has(userId)
  }

  add(userId: number, reason: LeftOutReason): void {
    this.reasons.set(userId, reason)
  }

  /** How many users are left out for a reason with this consequence. */
  count(rule: keyof Rule): number {
    let users = 0
    for (const reason of this.reasons.values()) if (rules[reason][rule]) users++
    return users
  }
}
