import type http from 'node:http'
import type { Socket } from 'node:net'

/** The answers that are made and not yet read in full. A client has `msMax` for each, from its first byte on. */
export class UnreadAnswers {
  /** In the order in which they began. */
  private readonly timers = new Map<http.ServerResponse, NodeJS.Timeout>()
  private readonly msMax: number

  constructor(msMax: number) {
    this.msMax = msMax
  }

  watch(response: http.ServerResponse): void {
    // a pipelined answer begins when the one ahead of it is sent
    response.once('prefinish', () => {
      this.timers.set(
        response,
        setTimeout(() => response.destroy(), this.msMax),
      )
    })
    response.once('close', () => {
      clearTimeout(this.timers.get(response))
      this.timers.delete(response)
    })
  }

  /** The connection that has left an answer unread for longest. */
  get oldest(): Socket | null | undefined {
    return this.timers.keys().next().value?.socket
  }
}
