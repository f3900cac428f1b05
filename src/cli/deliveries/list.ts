/** The ledger as lines for people, CSV or NDJSON, a page at a time. */

import { milliseconds, timeFormat } from '../../base/amounts.ts'
import { toGuardedCell } from '../../base/csv-cell.ts'
import { spellOut } from '../../base/printable.ts'
import { type DeliveryFilter, type ListedDelivery, listDeliveries } from '../../inspect/delivery/list-deliveries.ts'
import { toDeliveryLine } from '../../push/reporter.ts'
import { findUser } from '../../users/users.ts'
import { type AtDatabase, type ExitCode, wrongValue } from '../describe.ts'
import { readDuration } from '../option-values.ts'
import { toJsonLine } from '../output.ts'
import { paint } from '../painted.ts'
import { formatDelivery } from './format.ts'

interface ListOptions {
  period?: string
  status?: NonNullable<DeliveryFilter['statuses']>
  kind?: NonNullable<DeliveryFilter['kinds']>
  user?: string
  since?: string
  slowerThan?: string
  doubtful?: true
  limit?: number
  csv?: true
}

/** The columns of CSV, which are the fields of `--json`. */
const csvColumns = [
  ...(['user', 'kind', 'idempotencyKey', 'period', 'part', 'parts', 'queries', 'leads', 'bytes', 'status'] as const),
  ...(['attempts', 'httpStatus', 'error', 'firstAt', 'lastAt', 'durationMs', 'cause', 'doubtful'] as const),
]

export async function list({ io, open }: AtDatabase<'timeZone'>, options: ListOptions): Promise<ExitCode> {
  const { period, status: statuses, kind: kinds, user, since, slowerThan, doubtful, limit, csv } = options
  const { isJson } = io.out
  if (period !== undefined && !/^\d{4}-W\d{2}$/.test(period))
    throw wrongValue('--period', period, 'a year and its week, such as 2026-W47')
  const sinceMs = since === undefined ? undefined : readDuration('--since', since, '1s', '3650d')
  const slowerThanMs = slowerThan === undefined ? undefined : readDuration('--slower-than', slowerThan, '0ms', '1h')
  const filter = { period, statuses, kinds, sinceMs, slowerThanMs, doubtful, limit }
  return await open(async (opened, settings) => {
    const userId = user === undefined ? undefined : (await findUser(opened.db, user)).user.id
    const time = timeFormat(settings.timeZone)
    let listed = 0
    if (csv) await io.out.write(`${csvColumns.join(',')}\n`)
    await listDeliveries(opened, { ...filter, userId }, async (page) => {
      if (listed === 0 && io.stdout.isTTY && !csv && !isJson) await io.out.line(paint('dim', header))
      listed += page.length
      if (csv || isJson) await io.out.write(page.map(csv ? toCsvLine : toNdjson).join(''))
      else await io.out.line(...page.map((found) => toText(found, time)))
    })
    if (listed === 0 && !csv && !isJson) await io.out.line('No delivery is like that.')
    return 0
  })
}

const toFields = ({ firstAt, lastAt, durationMs, cause, doubtful, ...delivery }: ListedDelivery) => ({
  ...toDeliveryLine(delivery, delivery),
  ...{ firstAt, lastAt, durationMs, cause, doubtful },
})

const toNdjson = (found: ListedDelivery): string => toJsonLine(toFields(found))

function toCsvLine(found: ListedDelivery): string {
  const fields = toFields(found)
  return `${csvColumns.map((name) => toCsvCell(fields[name])).join(',')}\n`
}

/** Null is an empty cell. A spreadsheet must not run what a file or the receiver said. */
function toCsvCell(value: string | number | boolean | Date | null): string {
  if (value === null || typeof value === 'number' || typeof value === 'boolean') return String(value ?? '')
  return toGuardedCell(spellOut(value instanceof Date ? value.toISOString() : value))
}

/** The columns for people, and their widths: a time, a duration, a week, the longest key that leadpush makes. */
const columns = [
  ['first attempt', '2026-11-23 06:00:00'.length],
  ['last attempt', '2026-11-23 06:00:00'.length],
  ['took', '999 ms'.length],
  ['period', '2026-W47'.length],
  ['key', '2026-W47-1-'.length + 32],
  ['delivery', 0],
] as const

const toRow = (cells: readonly string[]): string =>
  columns.map(([, width], at) => (cells[at] ?? '').padEnd(width)).join('  ')

const header = toRow(columns.map(([name]) => name))

function toText(found: ListedDelivery, time: (at: Date | null) => string): string {
  const { firstAt, lastAt, durationMs, period, idempotencyKey, email: user, cause, doubtful } = found
  const why = cause ?? (doubtful ? 'doubtful: the answer did not show that the receiver took it' : null)
  const took = durationMs === null ? '' : milliseconds(durationMs)
  return toRow([time(firstAt), time(lastAt), took, period, idempotencyKey, formatDelivery({ ...found, user }, why)])
}
