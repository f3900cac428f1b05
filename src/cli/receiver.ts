/** `leadpush receiver`: a strict reference receiver, for whoever develops one, and for trying a sender. */
import type { Command } from 'commander'
import { messageOf } from '../errors.ts'
import type { Faults } from '../receiver/faults.ts'
import type { ReceivedDelivery } from '../receiver/receiver.ts'
import { type ExitCode, usageError, withDatabase } from './command.ts'
import type { Log } from './log.ts'
import { bytes, paint, plural, writeJson, writeLine } from './output.ts'
import type { Act } from './program.ts'
import { listenForStop } from './signals.ts'

const delayMsMax = 600_000

export function addReceiver(program: Command, act: Act): void {
  program
    .command('receiver')
    .description(
      'Run a strict reference receiver for development: checks every rule of a delivery, and shows what came.',
    )
    .option('--host <address>', 'where to listen (127.0.0.1)')
    .option('--port <port>', 'on which port; 0 takes a free one (8080)')
    .option('--fail <status:count>', 'answer the first COUNT requests with STATUS')
    .option('--delay <duration>', 'wait before each answer, such as 2s')
    .option('--drop <count>', 'break the connection of the first COUNT requests')
    .option('--json', 'print one JSON object a request')
    .addHelpText(
      'after',
      '\nExamples:\n  leadpush receiver --port 9000\n  leadpush receiver --fail 503:2 --delay 250ms',
    )
    .action(act(receive))
}

interface ReceiverCommandOptions {
  host?: string
  port?: string
  fail?: string
  delay?: string
  drop?: string
  json?: true
}

async function receive(log: Log, options: ReceiverCommandOptions): Promise<ExitCode> {
  const { processSource, readSettings } = await import('../config.ts')
  const { startReceiver } = await import('../receiver/receiver.ts')
  const flags = {
    ...(options.host !== undefined && { host: { flag: '--host', value: options.host } }),
    ...(options.port !== undefined && { port: { flag: '--port', value: options.port } }),
  }
  const settings = readSettings(['databaseUrl', 'home', 'host', 'port', 'logFormat'], processSource(flags))
  const faults = await readFaults(options)
  return await withDatabase(settings, { create: true }, async (opened) => {
    const stop = listenForStop(() => {})
    const { host, port } = settings
    const receiver = await startReceiver({
      db: opened,
      host,
      port,
      faults,
      onDelivery: (delivery) => void show(delivery, options),
      onTrouble: (error) => log.error(messageOf(error)),
    })
    try {
      await writeLine(`leadpush receiver listening on ${receiver.url}`)
      await new Promise<void>((resolve) => {
        if (stop.signal.aborted) resolve()
        else stop.signal.addEventListener('abort', () => resolve(), { once: true })
      })
      log.info('Stopping.')
      return 0
    } finally {
      await receiver.close()
      stop.dispose()
    }
  })
}

async function readFaults({ fail, delay, drop }: ReceiverCommandOptions): Promise<Faults> {
  const { parseDuration } = await import('../config.ts')
  const { parseFail } = await import('../receiver/faults.ts')
  const faults: Faults = {}
  if (fail !== undefined) {
    const parsed = parseFail(fail)
    if (!parsed)
      throw usageError(`--fail: holds "${fail}"; allowed: a status from 300 to 599 and how often, such as 503:2`)
    faults.fail = parsed
  }
  if (delay !== undefined) {
    const delayMs = parseDuration(delay)
    if (delayMs === undefined || delayMs > delayMsMax)
      throw usageError(`--delay: holds "${delay}"; allowed: a duration up to 10m, such as 2s`)
    faults.delayMs = delayMs
  }
  if (drop !== undefined) {
    if (!/^[1-9]\d{0,8}$/.test(drop)) throw usageError(`--drop: holds "${drop}"; allowed: a whole number, 1 or more`)
    faults.drop = Number(drop)
  }
  return faults
}

async function show(delivery: ReceivedDelivery, { json }: ReceiverCommandOptions): Promise<void> {
  const { status, msg, queries, leads, times, problems } = delivery
  if (json) return await writeJson({ type: 'request', ...delivery })
  const answer = paint(status !== null && status < 300 ? 'green' : 'red', status === null ? 'dropped' : String(status))
  const again = times > 1 ? ` (key seen ${times} times)` : ''
  await writeLine(
    `${answer}  ${plural(leads, 'lead')} for ${plural(queries, 'query')}, ${bytes(delivery.bytes)}: ${msg}${again}`,
  )
  for (const { clause, path, message } of problems)
    await writeLine(`     ${path ? `${path} ` : ''}${message} (contract ${clause})`)
}
