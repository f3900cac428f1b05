/** The pace of attempts at each host (contract 6.5). One run sends at a time, so it knows of all of them. */
import { setTimeout as delay } from 'node:timers/promises'
import { hostTurnSpacingMs } from '../base/limits.ts'

/** The host of a URL: a name or an address, without its port. */
export const hostOf = (url: string): string =>
  URL.canParse(url) ? new URL(url).hostname.replace(/\.$/, '').toLowerCase() : ''

export class HostPace {
  /** The time of the next allowed attempt, for each host that was called lately. */
  private readonly turns = new Map<string, Promise<void>>()
  private readonly wait: (ms: number) => Promise<unknown>

  /** `wait`: ends after so many milliseconds. */
  constructor(wait: (ms: number) => Promise<unknown> = delay) {
    this.wait = wait
  }

  /** Waits until an attempt at `host` may begin, in the order of the calls. It must begin at once. */
  async waitForTurn(host: string): Promise<void> {
    const turn = this.turns.get(host) ?? Promise.resolve()
    const next: Promise<void> = turn.then(async () => {
      await this.wait(hostTurnSpacingMs)
      if (this.turns.get(host) === next) this.turns.delete(host)
    })
    this.turns.set(host, next)
    await turn
  }
}
