/** Diagnostics, always on standard error: plain lines for people, or one JSON object a line. */
import { LeadpushError, messageOf } from '../errors.ts'

export type LogFields = Record<string, string | number | boolean | null | undefined>

export interface Log {
  info(message: string, fields?: LogFields): void
  warn(message: string, fields?: LogFields): void
  error(message: string, fields?: LogFields): void
  /** For machines only: one line an attempt would bury what a person looks for. */
  detail(message: string, fields: LogFields): void
  readonly format: 'pretty' | 'json'
}

const prettyLog: Log = {
  format: 'pretty',
  info: (message) => void process.stderr.write(`${message}\n`),
  warn: (message) => void process.stderr.write(`warning: ${message}\n`),
  error: (message) => void process.stderr.write(`error: ${message}\n`),
  detail: () => {},
}

async function jsonLog(): Promise<Log> {
  const { default: pino } = await import('pino')
  const options = {
    base: null,
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (level: string) => ({ level }) },
  }
  const logger = pino(options, pino.destination({ fd: 2, sync: true }))
  return {
    format: 'json',
    info: (message, fields) => logger.info(fields ?? {}, message),
    warn: (message, fields) => logger.warn(fields ?? {}, message),
    error: (message, fields) => logger.error(fields ?? {}, message),
    detail: (message, fields) => logger.info(fields, message),
  }
}

export async function createLog(format: 'pretty' | 'json'): Promise<Log> {
  return format === 'json' ? await jsonLog() : prettyLog
}

/** An error as its reader needs it: what happened, then what to do. What nobody expected comes with its stack. */
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
  log.error(
    [first, ...more.map((line) => `       ${line}`), ...(error.hint ? [`       ${error.hint}`] : [])].join('\n'),
  )
}
