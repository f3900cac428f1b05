/** One request on the wire: what of it may have reached the peer, when it is over, and when its connection must go with it. */
import type { Socket } from 'node:net'
import { codeOf } from '../base/errors.ts'
import { responseBytesMax } from '../base/limits.ts'
import { describeTrouble, type TroubleStage } from './trouble.ts'

export interface HttpAnswer {
  kind: 'answer'
  status: number
  /** These headers as they came. */
  retryAfter: string | undefined
  date: string | undefined
  contentEncoding: string | undefined
  complete: true
  /** Where the request asked for it: as it came, at most the first 64 KiB. */
  body: Buffer | undefined
  /** It came over a connection that had carried another request before. */
  reused: boolean
}

export interface HttpNoAnswer {
  kind: 'no-answer'
  /** false: certainly nothing of the request reached the peer. */
  sent: boolean
  stage: TroubleStage
  /** One line in plain words, without secrets and without text from the peer. */
  error: string
  code: string | undefined
  reused: boolean
}

export type HttpOutcome = HttpAnswer | HttpNoAnswer

/** What connecting failed with, wrapped: undici connects again at once, without end, when it sees some of its own errors. */
export class Unreached extends Error {}

const over = new Error('over')

interface Controller {
  abort(reason: Error): void
}

/** What an exchange needs to know of its place: the connection made there last, and whether it has carried a request yet. */
export interface ExchangeSlot {
  socket: Socket | undefined
  used: boolean
}

const first = (value: string | string[] | undefined) => (Array.isArray(value) ? value[0] : value)

/** One request, from dispatch to its outcome: the handler that undici calls. */
export class Exchange {
  private readonly slot: ExchangeSlot
  private readonly dispatch: (exchange: Exchange) => void
  private readonly settle: (outcome: HttpOutcome) => void
  private readonly timer: NodeJS.Timeout
  private controller: Controller | undefined
  /** The connection that the request runs on. */
  private socket: Socket | undefined
  /** Whether the request went over a connection that had carried another before. */
  reused = false
  private settled = false
  private ended = false
  /** The connection that was kept broke before the request was on it: it goes over another. */
  private begunAnew = false
  private status = 0
  private retryAfter: string | undefined
  private date: string | undefined
  private contentEncoding: string | undefined
  private bytes = 0
  private readonly kept: Buffer[] | undefined

  constructor(
    slot: ExchangeSlot,
    { timeoutMs, keepsAnswer }: { timeoutMs: number; keepsAnswer: boolean },
    dispatch: (exchange: Exchange) => void,
    settle: (outcome: HttpOutcome) => void,
  ) {
    this.slot = slot
    this.dispatch = dispatch
    this.kept = keepsAnswer ? [] : undefined
    this.settle = settle
    this.timer = setTimeout(() => this.fail('TIMEOUT'), timeoutMs)
  }

  begin(): void {
    try {
      if (!this.settled) this.dispatch(this)
    } catch (error) {
      this.onResponseError(undefined, error as Error)
    }
  }

  /** From here on bytes may reach the peer. */
  onRequestStart(controller: Controller): void {
    if (this.settled || this.controller) {
      // too late, or a second time: undici must not send a request again by itself
      controller.abort(over)
      if (!this.settled) this.fail('ECONNRESET')
      return
    }
    this.controller = controller
    this.socket = this.slot.socket
    this.reused = this.slot.used
    this.slot.used = true
  }

  onResponseStart(_: unknown, status: number, headers: Record<string, string | string[] | undefined>): void {
    if (status < 200) return
    this.status = status
    this.retryAfter = first(headers['retry-after'])
    this.date = first(headers.date)
    this.contentEncoding = first(headers['content-encoding'])
  }

  onResponseData(_: unknown, chunk: Buffer): void {
    this.bytes += chunk.length
    this.kept?.push(Buffer.from(chunk))
    if (this.bytes > responseBytesMax && !this.settled) this.answer()
  }

  onResponseEnd(): void {
    if (this.settled) return
    this.ended = true
    // a response without a length ends with its connection, but not with a broken one
    if (this.socket?.errored) this.fail('ECONNRESET')
    else this.answer()
  }

  onResponseError(_: unknown, error: Error): void {
    if (this.settled) return
    if (error instanceof Unreached) this.fail(codeOf(error.cause), error)
    else if (this.controller || this.begunAnew || !this.slot.socket?.errored) this.fail(codeOf(error), error)
    else {
      this.begunAnew = true
      // undici takes no request while it fails one
      queueMicrotask(() => this.begin())
    }
  }

  /** Whatever did not come to its end in both directions ends with its connection, so that nothing reads the body any more. */
  private finish(outcome: HttpOutcome): void {
    this.settled = true
    clearTimeout(this.timer)
    if (!this.ended) this.controller?.abort(over)
    if (this.socket && this.socket.writableLength > 0) this.socket.destroy()
    this.settle(outcome)
  }

  private answer(): void {
    this.finish({
      kind: 'answer',
      status: this.status,
      retryAfter: this.retryAfter,
      date: this.date,
      contentEncoding: this.contentEncoding,
      complete: true,
      body: this.kept && Buffer.concat(this.kept).subarray(0, responseBytesMax),
      reused: this.reused,
    })
  }

  private fail(code: string | undefined, error?: Error): void {
    const stage = this.status > 0 ? 'response' : this.controller ? 'request' : 'connect'
    const cause = error instanceof Unreached ? error.cause : error
    const text = describeTrouble(stage, code, cause)
    this.finish({
      kind: 'no-answer',
      sent: this.controller !== undefined,
      stage,
      error: text,
      code,
      reused: this.reused,
    })
  }
}
