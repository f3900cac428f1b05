/** One request on the wire: how much of it the peer may have received, when it ends, and when its connection must end too. */
import type { Socket } from 'node:net'
import { codeOf } from '../base/errors.ts'
import { responseBytesMax } from '../base/limits.ts'
import { describeTrouble, isProxyAway, type TroubleStage } from './trouble.ts'

export interface HttpAnswer {
  kind: 'answer'
  status: number
  /** These headers as they came. */
  retryAfter: string | undefined
  date: string | undefined
  contentType: string | undefined
  contentEncoding: string | undefined
  /** All of them, separated by commas. */
  acceptEncoding: string | undefined
  complete: true
  /** The first 64 KiB as received; undefined unless the request asked for the body. */
  body: Buffer | undefined
  /** The connection had carried another request before. */
  reused: boolean
}

export interface HttpNoAnswer {
  kind: 'no-answer'
  /** False: certainly nothing of the request reached the peer. */
  sent: boolean
  stage: TroubleStage
  /** One line in plain words, without secrets and without text from the peer. */
  error: string
  code: string | undefined
  reused: boolean
  /** The proxy was not reached. */
  atProxy?: boolean
}

export type HttpOutcome = HttpAnswer | HttpNoAnswer

/** Wraps the error of a failed connection: undici would connect again at once, without end, on some of its own errors. */
export class NoConnection extends Error {}

const over = new Error('over')

interface Controller {
  abort(reason: Error): void
}

/** The state of a slot for an exchange: its last connection, and whether that has carried a request. */
export interface ExchangeSlot {
  socket: Socket | undefined
  used: boolean
  /** Whether the next bytes over that connection begin an answer. */
  awaitsAnswer: boolean
  /** Whether requests go through a proxy. */
  readonly isProxied: boolean
  /** The first error of that connection. */
  firstError: Error | undefined
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
  /** The kept connection broke before the request was written: the request goes over another one. */
  private begunAnew = false
  private status = 0
  private retryAfter: string | undefined
  private date: string | undefined
  private contentType: string | undefined
  private contentEncoding: string | undefined
  private acceptEncoding: string | undefined
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
      // undici must neither send after the outcome nor send twice
      controller.abort(over)
      if (!this.settled) this.fail('ECONNRESET')
      return
    }
    this.controller = controller
    this.socket = this.slot.socket
    this.reused = this.slot.used
    this.slot.used = true
    this.slot.awaitsAnswer = true
  }

  onResponseStart(_: unknown, status: number, headers: Record<string, string | string[] | undefined>): void {
    if (status < 200) return
    this.status = status
    this.retryAfter = first(headers['retry-after'])
    this.date = first(headers.date)
    this.contentType = first(headers['content-type'])
    this.contentEncoding = first(headers['content-encoding'])
    this.acceptEncoding = headers['accept-encoding']?.toString()
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
    // after a TLS alert undici reports only that the peer closed
    if (codeOf(error) === 'UND_ERR_SOCKET' && this.slot.firstError) error = this.slot.firstError
    // these two end with their head, even if it tells a length (RFC 9112, 6.3): undici fails for want of the body, with
    // UND_ERR_RES_CONTENT_LENGTH_MISMATCH
    if (this.status === 204 || this.status === 304) this.answer()
    else if (this.isProxyRefusal(error)) this.answer()
    else if (error instanceof NoConnection) this.fail(codeOf(error.cause), error)
    else if (this.controller || this.begunAnew || !this.slot.socket?.errored) this.fail(codeOf(error), error)
    else {
      this.begunAnew = true
      // undici takes no request while it fails one
      queueMicrotask(() => this.begin())
    }
  }

  /**
   * undici makes this error of a proxy's 407 to a request in absolute form. That is an answer, and the request went no further. The
   * same code without a request on the wire means a bad argument.
   */
  private isProxyRefusal(error: Error): boolean {
    if (!this.slot.isProxied || !this.controller || codeOf(error) !== 'UND_ERR_INVALID_ARG') return false
    this.status = 407
    return true
  }

  /** Closes a connection that did not finish in both directions, so that nothing reads the body any more. */
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
      contentType: this.contentType,
      contentEncoding: this.contentEncoding,
      acceptEncoding: this.acceptEncoding,
      complete: true,
      body: this.kept && Buffer.concat(this.kept).subarray(0, responseBytesMax),
      reused: this.reused,
    })
  }

  private fail(code: string | undefined, error?: Error): void {
    const stage = this.status > 0 ? 'response' : this.controller ? 'request' : 'connect'
    const cause = error instanceof NoConnection ? error.cause : error
    const text = describeTrouble(stage, code, cause)
    const atProxy = this.slot.isProxied && isProxyAway(stage, code)
    this.finish({
      kind: 'no-answer',
      sent: this.controller !== undefined,
      stage,
      error: atProxy ? `the proxy was not reached: ${text}` : text,
      code,
      reused: this.reused,
      ...(atProxy && { atProxy }),
    })
  }
}
