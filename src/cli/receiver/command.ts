/** `leadpush receiver`: a strict reference receiver, for developers of receivers and for trying a sender. */
import type { Command } from 'commander'
import { messageOf } from '../../base/errors.ts'
import type { Database } from '../../db/open.ts'
import type { Faults } from '../../receiver-kit/receiver/faults.ts'
import type { SecretSettings } from '../../secrets/vault.ts'
import { type Act, type ExitCode, openSecrets, settingsSource, usageError, withDatabase } from '../command.ts'
import type { CommandIo } from '../command-io.ts'
import { RepeatedOption, readCount } from '../options.ts'

const delayMsMax = 600_000
const keysBytesMax = 16 * 1024 * 1024

export function addReceiver(program: Command, act: Act): void {
  program
    .command('receiver')
    .description(
      'Run a strict reference receiver for development: checks every rule of a delivery, and shows what came.',
    )
    .option('--host <address>', 'where to listen (LEADPUSH_HOST, else 127.0.0.1)')
    .option('--port <port>', 'on which port; 0 takes a free one (LEADPUSH_PORT, else 8080)')
    .option(
      '--keys <file>',
      'take only these user keys: those of the `users` in the database, or a file, one key a line; - is standard input',
    )
    .addOption(
      new RepeatedOption('--fail <status:count>', 'answer the next COUNT requests with STATUS; repeat it for a script'),
    )
    .option('--drop [count]', 'then break the connection of the next COUNT requests (1)')
    .option('--limit <rate:burst>', 'answer requests beyond a rate, such as 20/s:20 or 600/m, with 429 and Retry-After')
    .option('--refuse <status>', 'answer every request with STATUS, such as 401')
    .option('--html', 'answer refusals with HTML pages instead of JSON')
    .option('--delay <duration>', 'wait before each answer, such as 2s')
    .option('--json', 'print one JSON object a request')
    .addHelpText(
      'after',
      `
Any path will do, and without --keys any well-formed user key. It keeps leads by
href under the null rule, in the database: a value that is null never wipes out
one that came before. Answers are JSON; \`problems\` lists each rule that a
request breaks, with its clause and place. --limit is a bucket of tokens:
without a burst it holds what one second brings.

Examples:
  leadpush receiver --port 9000
  leadpush receiver --fail 503:2 --fail 429 --drop --delay 250ms
  leadpush receiver --limit 20/s:20 --html
  leadpush receiver --refuse 401
  leadpush receiver --keys users --json`,
    )
    .action(act(receive))
}

interface ReceiverCommandOptions {
  host?: string
  port?: string
  keys?: string
  fail?: string[]
  delay?: string
  drop?: string | true
  limit?: string
  refuse?: string
  html?: true
  json?: true
}

async function receive(io: CommandIo, options: ReceiverCommandOptions): Promise<ExitCode> {
  const { readSettings } = await import('../../base/config.ts')
  const { startReceiver } = await import('../../receiver-kit/receiver/receiver.ts')
  const { createReceiverView } = await import('./view.ts')
  const flags = {
    ...(options.host !== undefined && { host: { flag: '--host', value: options.host } }),
    ...(options.port !== undefined && { port: { flag: '--port', value: options.port } }),
  }
  const settings = readSettings(
    ['databaseUrl', 'home', 'host', 'port', 'logFormat', ...(options.keys === 'users' ? (['secretKey'] as const) : [])],
    settingsSource(io, flags),
  )
  const faults = await readFaults(options)
  const chooseKeys = await readKeys(io, options)
  return await withDatabase(io, settings, { create: true, writes: true }, async (opened) => {
    const stop = io.stops.listen(() => {})
    const { host, port } = settings
    const knowsKey = await chooseKeys(opened.db, settings)
    const view = await createReceiverView(io, { json: options.json ?? false })
    try {
      const receiver = await startReceiver({
        db: opened,
        host,
        port,
        faults,
        ...(knowsKey && { knowsKey }),
        onDelivery: (delivery) => view.show(delivery),
        onTrouble: (error) => io.log.error(messageOf(error)),
      })
      await io.out.line(`leadpush receiver listening on ${receiver.url}`)
      await new Promise<void>((resolve) => {
        if (stop.signal.aborted) resolve()
        else stop.signal.addEventListener('abort', () => resolve(), { once: true })
      })
      await receiver.close()
      return 0
    } finally {
      view.stop()
      stop.dispose()
    }
  })
}

async function readInput(io: CommandIo): Promise<string> {
  let text = ''
  for await (const chunk of io.openStdin().setEncoding('utf8')) {
    text += chunk
    if (text.length > keysBytesMax) throw new Error(`it holds more than ${keysBytesMax} bytes`)
  }
  return text
}

type KnowsKey = (key: string) => boolean | Promise<boolean>
type ChooseKeys = (db: Database, settings: SecretSettings) => Promise<KnowsKey | undefined>

/** Decides which receiver keys are taken, once there is a database. Keys come from a file, since arguments show in the list of processes. */
async function readKeys(io: CommandIo, { keys }: ReceiverCommandOptions): Promise<ChooseKeys> {
  if (keys === undefined) return async () => undefined
  if (keys === 'users') {
    const { isReceiverKey } = await import('../../users/users.ts')
    return async (db, settings) => {
      const vault = await openSecrets(db, settings)
      return (key) => isReceiverKey(db, vault, key)
    }
  }
  const { readSmallFile } = await import('../../base/small-file.ts')
  const { receiverKeySchema } = await import('../../users/user.ts')
  let text = ''
  try {
    text = keys === '-' ? await readInput(io) : readSmallFile(keys, keysBytesMax)
  } catch (error) {
    throw usageError(`--keys: ${JSON.stringify(keys)} cannot be read: ${messageOf(error)}`)
  }
  const known = new Set<string>()
  for (const [at, line] of text.split('\n').entries()) {
    const key = line.trim()
    if (key === '') continue
    const parsed = receiverKeySchema.safeParse(key)
    if (!parsed.success) throw usageError(`--keys: line ${at + 1} ${parsed.error.issues[0]?.message}`)
    known.add(key)
  }
  return async () => (key) => known.has(key)
}

async function readFaults({ fail = [], delay, drop, limit, refuse, html }: ReceiverCommandOptions): Promise<Faults> {
  const { parseDuration } = await import('../../base/setting-values.ts')
  const { parseFail, parseStatus } = await import('../../receiver-kit/receiver/faults.ts')
  const { parseLimit } = await import('../../receiver-kit/receiver/token-bucket.ts')
  const faults: Faults = {
    fail: fail.map((text) => {
      const parsed = parseFail(text)
      if (parsed) return parsed
      throw usageError(`--fail: holds "${text}"; allowed: a status from 300 to 599 and how often, such as 503:2`)
    }),
    html: html ?? false,
  }
  if (delay !== undefined) {
    const delayMs = parseDuration(delay)
    if (delayMs === undefined || delayMs > delayMsMax)
      throw usageError(`--delay: holds "${delay}"; allowed: a duration up to 10m, such as 2s`)
    faults.delayMs = delayMs
  }
  if (drop !== undefined) faults.drop = readCount('--drop', drop === true ? '1' : drop)
  if (limit !== undefined) {
    const size = parseLimit(limit)
    const allowed = 'requests a second or minute and a burst, such as 20/s:20 or 600/m'
    if (size === undefined) throw usageError(`--limit: holds "${limit}"; allowed: ${allowed}`)
    faults.limit = size
  }
  if (refuse !== undefined) {
    const status = parseStatus(refuse)
    if (status === undefined)
      throw usageError(`--refuse: holds "${refuse}"; allowed: a status from 300 to 599, such as 401`)
    faults.refuse = status
  }
  return faults
}
