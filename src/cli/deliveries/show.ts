/** One delivery by its key, with its attempts, the receiver's words, and its body. */

import { bytes, formatCount, partOf, timeFormat } from '../../base/amounts.ts'
import { readDeliveredBody, unknownDelivery } from '../../inspect/delivery/read-body.ts'
import { findDelivery } from '../../inspect/status/user-deliveries.ts'
import { toDeliveryLine } from '../../push/reporter.ts'
import type { CommandIo } from '../command-io.ts'
import type { AtDatabase, ExitCode } from '../describe.ts'
import { paintStatus } from '../painted.ts'
import { writeAttempts } from '../status/trouble-view.ts'
import { userOf } from './format.ts'

type Found = NonNullable<Awaited<ReturnType<typeof findDelivery>>>

export async function show(
  { io, open }: AtDatabase<'timeZone' | 'keepAnswers'>,
  key: string,
  { body }: { body?: true },
): Promise<ExitCode> {
  return await open(async ({ db }, settings) => {
    // a text with other characters is not a key, and PostgreSQL may refuse it
    const found = /^[!-~]{1,64}$/.test(key) ? await findDelivery(db, key, settings.keepAnswers) : undefined
    if (!found) throw unknownDelivery(key)
    if (body) {
      await io.out.write(await readDeliveredBody(db, found))
      if (io.stdout.isTTY) await io.out.write('\n')
      return 0
    }
    const { attemptLog, createdAt, recipe: _, queryList: __, ...line } = found
    await io.out.result({ ...toDeliveryLine(line, line), createdAt, attemptLog }, () =>
      writeDelivery(io, found, settings.timeZone),
    )
    return 0
  })
}

async function writeDelivery(io: CommandIo, found: Found, timeZone: string): Promise<void> {
  const time = timeFormat(timeZone)
  const { idempotencyKey, email, period, kind, status, queries, leads, createdAt, attemptLog, error } = found
  await io.out.facts([
    ['delivery', idempotencyKey],
    ['user', userOf(email)],
    ['what', `${kind} of ${period}${partOf(found)}`],
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
