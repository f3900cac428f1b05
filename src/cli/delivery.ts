/** `leadpush delivery`: one delivery by its key, with its attempts, what the receiver said, and its body. */
import type { Command } from 'commander'
import { bytes, formatCount, timeFormat } from '../base/amounts.ts'
import type { Database } from '../db/open.ts'
import { type Act, type ExitCode, inShort, usageError, withDatabase } from './command.ts'
import type { Log } from './log.ts'
import { write, writeFacts, writeJson, writeLine } from './output.ts'
import { paintStatus } from './painted.ts'

interface DeliveryOptions {
  body?: true
  json?: true
}

type Found = NonNullable<Awaited<ReturnType<typeof import('../inspect/status/user-deliveries.ts').findDelivery>>>

export function addDelivery(program: Command, act: Act): void {
  program
    .command('delivery')
    .description('Show one delivery: its attempts, what the receiver said, and with --body what was sent.')
    .argument('<key>', 'its X-Idempotency-Key')
    .option('--body', 'print its body, byte for byte as it went')
    .option('--json', 'print one JSON object')
    .addHelpText(
      'after',
      `
The key stands in the X-Idempotency-Key of the request, and in the lines of --json.
The body is built again from the listings as they were then, also that of a past week.
Once one of its listings was erased, or deleted by \`leadpush prune\`, --body exits 1.

Examples:
  leadpush status --user user@example.com --json | jq -r .idempotencyKey
  leadpush delivery 5f0c…
  leadpush delivery 5f0c… --body | jq '.fsbos | length'
  leadpush delivery 5f0c… --json | jq '.attemptLog[].answer'`,
    )
    .action(act(delivery))
}

async function delivery(_log: Log, key: string, options: DeliveryOptions): Promise<ExitCode> {
  if (options.body && options.json)
    throw usageError('--body and --json exclude each other.', 'A body is a line of JSON already.')
  const { processSource, readSettings } = await import('../base/config.ts')
  const settings = readSettings(['databaseUrl', 'home', 'timeZone', 'keepAnswers', 'logFormat'], processSource())
  return await withDatabase(settings, inShort, async ({ db }) => {
    const { findDelivery } = await import('../inspect/status/user-deliveries.ts')
    const { unknownDelivery } = await import('../inspect/delivery/read-body.ts')
    // a text of other characters is no key, and PostgreSQL may refuse it
    const found = /^[!-~]{1,64}$/.test(key) ? await findDelivery(db, key, settings.keepAnswers) : undefined
    if (!found) throw unknownDelivery(key)
    if (options.body) await writeBody(db, found)
    else if (options.json) await writeDeliveryJson(found)
    else await writeDelivery(found, settings.timeZone)
    return 0
  })
}

async function writeBody(db: Database, found: Found): Promise<void> {
  const { readDeliveredBody } = await import('../inspect/delivery/read-body.ts')
  await write(await readDeliveredBody(db, found))
  if (process.stdout.isTTY) await write('\n')
}

async function writeDeliveryJson({ attemptLog, createdAt, recipe: _, queryList: __, ...line }: Found): Promise<void> {
  const { toDeliveryLine } = await import('../push/reporter.ts')
  await writeJson({ ...toDeliveryLine(line), createdAt, attemptLog })
}

async function writeDelivery(found: Found, timeZone: string): Promise<void> {
  const { writeAttempts } = await import('./status/trouble-view.ts')
  const time = timeFormat(timeZone)
  const { idempotencyKey, email, period, kind, part, parts, status, queries, leads, createdAt, attemptLog, error } =
    found
  await writeFacts([
    ['delivery', idempotencyKey],
    ['user', email ?? '(removed user)'],
    ['what', `${kind} of ${period}${parts > 1 ? `, part ${part} of ${parts}` : ''}`],
    ['status', paintStatus(status)],
    ['queries', formatCount(queries)],
    ['leads', formatCount(leads)],
    ['bytes', bytes(found.bytes)],
    ['begun', time(createdAt)],
  ])
  await writeLine('')
  if (attemptLog.length === 0) await writeLine(error ?? 'No attempt yet.')
  else await writeAttempts(attemptLog, error, time)
}
