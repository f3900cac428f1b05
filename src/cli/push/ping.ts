/**
 * The dead man's switch of `push --all` (contract 2): it is told the start and the end, and with LEADPUSH_PING_BODY also the summary of
 * the push. Trouble with it is logged, and changes nothing.
 */
import pRetry from 'p-retry'
import type { Proxies } from '../../base/config.ts'
import { type ErrorCode, LeadpushError } from '../../base/errors.ts'
import { pingBodyBytesMax, pingPauseMs, pingRepeatsMax, pingTimeoutMs } from '../../base/limits.ts'
import { createHttp, type Http } from '../../http/client.ts'
import type { PushLine, SummaryLine } from '../../index.ts'
import { adviseOn, toAdvice, troublesOf } from '../../inspect/status/advise-on.ts'
import { CauseTally } from '../../inspect/status/causes.ts'
import type { PushEnd } from '../../push/push-request.ts'
import type { Log } from '../log.ts'

export interface PingSettings {
  pingUrl: string
  pingBody: 'on' | 'off'
  proxies: Proxies
}

const shownMax = 5
/** Different reasons of skips; the rest count as one. */
const reasonsMax = 100
const textCharsMax = 500

/**
 * The text of a ping for a push that broke off. The error's own message is for the log alone: it may have the name of a user or a file,
 * or words of a server.
 */
const messages = {
  usage: 'Wrong usage or settings: nothing was done.',
  database: 'The database cannot be used.',
  failed: 'The push did not succeed.',
  stopped: 'A signal ended it.',
  fault: 'A fault of leadpush itself.',
} as const satisfies Record<ErrorCode | 'stopped' | 'fault', string>

function describeBreak(error: unknown): string {
  if (error === undefined) return messages.stopped
  return messages[error instanceof LeadpushError ? error.code : 'fault']
}

/** A monitor keeps and mails what it is sent, so no text for it has an e-mail address. */
const clip = (text: string): string =>
  text.replace(/[^\s<>"'(]+@[^\s<>"')]+/g, '…').replace(new RegExp(`^(.{${textCharsMax}}).+$`, 'su'), '$1…')

/** The monitor has answered and refused the ping. */
class Refused extends Error {}

export class Ping {
  private readonly log: Log
  private readonly settings: PingSettings
  /** It keeps no users. */
  private readonly causes = new CauseTally(0)
  private readonly skips = new Map<string, number>()
  private summary: SummaryLine | undefined
  private advice: object[] = []

  constructor(log: Log, settings: PingSettings) {
    this.log = log
    this.settings = settings
  }

  async start(): Promise<void> {
    await this.send('start', '')
  }

  /** The push finished with that exit code. */
  async end(exitCode: number): Promise<void> {
    await this.send(exitCode === 0 ? 'success' : 'fail', this.formatBody({ exitCode }))
  }

  /** The push broke off; without an error a signal ended it. */
  async endBroken(error?: unknown): Promise<void> {
    await this.send('fail', this.formatBody({ message: describeBreak(error) }))
  }

  /** Takes what the body tells from the lines of the push. */
  line(line: PushLine): void {
    if (line.type === 'summary') this.summary = line
    else if (line.type === 'skip') this.noteSkip(line.reason)
    else if (line.type === 'delivery' && line.status !== 'delivered') this.causes.add(line)
  }

  /** Takes what the end of the push says of trouble. */
  noteEnd(end: PushEnd): void {
    this.advice = toAdvice(adviseOn(troublesOf(end)))
  }

  private noteSkip(reason: string): void {
    const key = this.skips.has(reason) || this.skips.size < reasonsMax ? reason : 'other reasons'
    this.skips.set(key, (this.skips.get(key) ?? 0) + 1)
  }

  /** The summary as `push --json` prints it, with the exit code, the causes and the reasons of skips, the most frequent first. */
  private formatBody(end: { exitCode: number } | { message: string }): string {
    const causes = this.causes.top(shownMax).map(({ what, toDo, deliveries }) => ({
      deliveries,
      cause: clip(what),
      remedy: clip(toDo),
    }))
    const skips = [...this.skips]
      .sort(([, a], [, b]) => b - a)
      .slice(0, shownMax)
      .map(([reason, lines]) => ({ lines, reason: clip(reason) }))
    const { summary, advice } = this
    const pending = summary ? summary.deliveries - summary.delivered - summary.failed - summary.unknown : 0
    const told = { ...(pending > 0 && { pending }), ...(advice.length > 0 && { advice }) }
    const body = { ...(summary ?? { type: 'error' }), ...end, ...told, causes, skips }
    for (;;) {
      // people read it in the log of the monitor
      const text = `${JSON.stringify(body, null, 1)}\n`
      if (Buffer.byteLength(text) <= pingBodyBytesMax) return text
      // the rest without any reason is far below the limit
      if (skips.pop() === undefined) causes.pop()
    }
  }

  private async send(what: 'start' | 'success' | 'fail', body: string): Promise<void> {
    const { pingUrl, proxies } = this.settings
    const url = new URL(pingUrl)
    if (what !== 'success') url.pathname = `${url.pathname.replace(/\/$/, '')}/${what}`
    const http = createHttp({ concurrency: 1, timeoutMs: pingTimeoutMs, proxies })
    const until = performance.now() + pingTimeoutMs
    try {
      // one broken connection must not alarm anybody; a monitor that answers has got the ping
      await pRetry(() => this.request(http, url.href, body, Math.max(1, until - performance.now())), {
        retries: pingRepeatsMax,
        minTimeout: pingPauseMs,
        maxRetryTime: pingTimeoutMs,
        shouldRetry: ({ error }) => !(error instanceof Refused),
      })
    } catch (error) {
      this.log.warn(`LEADPUSH_PING_URL: the ping (${what}) did not arrive: ${(error as Error).message}`)
    } finally {
      await http.close()
    }
  }

  /** Throws the trouble with one request. */
  private async request(http: Http, url: string, body: string, timeoutMs: number): Promise<void> {
    const outcome =
      this.settings.pingBody === 'on'
        ? await http.post({
            url,
            // a strict monitor refuses an empty body that is called JSON
            headers: body === '' ? [] : ['Content-Type', 'application/json'],
            body: Buffer.from(body),
            timeoutMs,
          })
        : await http.get(url, timeoutMs)
    if (outcome.kind === 'no-answer') throw new Error(outcome.error)
    if (outcome.status >= 400) throw new Refused(`HTTP ${outcome.status}`)
  }
}
