/** `leadpush deliveries show`: one delivery by its key, with its attempts, what the receiver said, and its body. */

import { bytes, formatCount, timeFormat } from '../../base/amounts.ts'
import { readSettings } from '../../base/config.ts'
import { readDeliveredBody, unknownDelivery } from '../../inspect/delivery/read-body.ts'
import { findDelivery } from '../../inspect/status/user-deliveries.ts'
import { toDeliveryLine } from '../../push/reporter.ts'
import { type ExitCode, inShort, settingsSource, withDatabase } from '../command.ts'
import type { CommandIo } from '../command-io.ts'
import { paintStatus } from '../painted.ts'
import { writeAttempts } from '../status/trouble-view.ts'
import { userOf } from './format.ts'

export interface ShowOptions {
  body?: true
  json?: true
}

type Found = NonNullable<Awaited<ReturnType<typeof findDelivery>>>

export async function show(io: CommandIo, key: string, options: ShowOptions): Promise<ExitCode> {
  const settings = readSettings(['databaseUrl', 'home', 'timeZone', 'keepAnswers', 'logFormat'], settingsSource(io))
  return await withDatabase(io, settings, inShort, async ({ db }) => {
    // a text of other characters is no key, and PostgreSQL may refuse it
    const found = /^[!-~]{1,64}$/.test(key) ? await findDelivery(db, key, settings.keepAnswers) : undefined
    if (!found) throw unknownDelivery(key)
    if (options.body) {
      await io.out.write(await readDeliveredBody(db, found))
      if (io.stdout.isTTY) await io.out.write('\n')
    } else if (options.json) await writeDeliveryJson(io, found)
    else await writeDelivery(io, found, settings.timeZone)
    return 0
  })
}

async function writeDeliveryJson(
  io: CommandIo,
  { attemptLog, createdAt, recipe: _, queryList: __, ...line }: Found,
): Promise<void> {
  await io.out.json({ ...toDeliveryLine(line), createdAt, attemptLog })
}

async function writeDelivery(io: CommandIo, found: Found, timeZone: string): Promise<void> {
  const time = timeFormat(timeZone)
  const { idempotencyKey, email, period, kind, part, parts, status, queries, leads, createdAt, attemptLog, error } =
    found
  await io.out.facts([
    ['delivery', idempotencyKey],
    ['user', userOf(email)],
    ['what', `${kind} of ${period}${parts > 1 ? `, part ${part} of ${parts}` : ''}`],
    ['status', paintStatus(status)],
    ['queries', formatCount(queries)],
    ['leads', formatCount(leads)],
    ['bytes', bytes(found.bytes)],
    ['begun', time(createdAt)],
  ])
  await io.out.line('')
  if (attemptLog.length === 0) await io.out.line(error ?? 'No attempt yet.')
  else await writeAttempts(io, attemptLog, error, time)
}
