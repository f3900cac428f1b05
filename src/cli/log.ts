/** Diagnostics, always on standard error: plain lines for people, or one JSON object a line. */
import { LeadpushError, messageOf } from '../base/errors.ts'
import { spellOut } from '../base/printable.ts'
import { gather } from './gather.ts'
import type { Io } from './io.ts'

export type LogFields = Record<string, string | number | boolean | null | undefined>

export interface Log {
  info(message: string, fields?: LogFields): void
  warn(message: string, fields?: LogFields): void
  error(message: string, fields?: LogFields): void
  /** For machines only: one line an attempt would bury what a person looks for. */
  detail(message: string, fields: LogFields): void
  /** A line from a child process: of its log, in this format, or of its runtime. */
  line(text: string): void
  readonly format: 'pretty' | 'json'
}

type LogIo = Pick<Io, 'stderr' | 'onExit'>

/** Indents further lines, so that imported text cannot pass for a line of its own. */
const indented = (text: string) => text.replaceAll('\n', `\n${' '.repeat('error: '.length)}`)

function prettyLog({ stderr }: LogIo): Log {
  /** A full disk under the log, or a closed terminal, must not end the command. */
  const say = (text: string) => {
    try {
      stderr.write(`${text.split('\n').map(spellOut).join('\n')}\n`)
    } catch {} // Node.js 20 throws where it is a file; elsewhere it is an event, which `main` meets
  }
  return {
    format: 'pretty',
    info: say,
    warn: (message) => say(`warning: ${indented(message)}`),
    error: (message) => say(`error: ${indented(message)}`),
    detail: () => {},
    line: say,
  }
}

function isJsonObject(text: string): boolean {
  if (!text.startsWith('{')) return false
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

/** How much of a server's log is kept while nobody reads it; the rest is dropped. */
const keptBytesMax = 1024 * 1024

/** A stream without a file descriptor is written to directly. */
async function jsonLog({ stderr, onExit }: LogIo, isServer: boolean): Promise<Log> {
  const { default: pino } = await import('pino')
  const options = {
    base: null,
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (level: string) => ({ level }) },
  }
  // a slow reader must not hold up a server
  const kept = isServer ? { sync: false, maxLength: keptBytesMax } : { sync: true }
  const lines = gather((text) => void destination.write(text))
  // before pino's own work at the end
  onExit(lines.flush)
  const destination = stderr.fd === undefined ? stderr : pino.destination({ fd: stderr.fd, ...kept })
  // at the end it would try for ever to write the rest
  destination.on('error', () => void Object.assign(destination, { flush: () => {}, flushSync: () => {} }))
  const logger = pino(options, { write: (line) => lines.add(`${spellOut(line.trimEnd())}\n`) })
  const now = (write: () => void) => {
    write()
    lines.flush()
  }
  return {
    format: 'json',
    info: (message, fields) => now(() => logger.info(fields ?? {}, message)),
    warn: (message, fields) => now(() => logger.warn(fields ?? {}, message)),
    error: (message, fields) => now(() => logger.error(fields ?? {}, message)),
    detail: (message, fields) => logger.info(fields, message),
    line: (text) => now(() => (isJsonObject(text) ? lines.add(`${text}\n`) : logger.warn(text))),
  }
}

/** Diagnostics on standard error. */
export async function createLog(io: LogIo, format: 'pretty' | 'json', isServer = false): Promise<Log> {
  return format === 'json' ? await jsonLog(io, isServer) : prettyLog(io)
}

/** An error as its reader needs it: what happened, then what to do. An unexpected error comes with its stack. */
export function logError(log: Log, error: unknown): void {
  if (!(error instanceof LeadpushError)) {
    const stack = error instanceof Error ? error.stack : undefined
    if (log.format === 'json') log.error(messageOf(error), { stack })
    else log.error(`${messageOf(error)}\n${stack ?? ''}\nThis is a fault of leadpush itself: please report it.`)
    return
  }
  const [first = '', ...more] = error.message.split('\n')
  if (log.format === 'json') {
    for (const line of [first, ...more]) log.error(line, { hint: error.hint })
    return
  }
  log.error([first, ...more, ...(error.hint ? [error.hint] : [])].join('\n'))
}
