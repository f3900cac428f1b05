/** Reads `Retry-After`: when a busy peer wants the next request. */
import type { HttpAnswer } from './exchange.ts'

/**
 * `Retry-After` in milliseconds, from 0 to `maxMs`; null for a text that is neither seconds nor a date. A date counts from the
 * response's own `Date`, if it has one, so that a wrong clock does no harm.
 */
export function parseRetryAfter(
  { retryAfter, date }: Pick<HttpAnswer, 'retryAfter' | 'date'>,
  nowMs: number,
  maxMs: number,
): number | null {
  const value = retryAfter?.trim()
  if (!value) return null
  if (/^\d+(\.\d+)?$/.test(value)) return Math.min(Number(value) * 1_000, maxMs)
  const atMs = parseHttpDate(value)
  if (atMs === undefined) return null
  return Math.min(Math.max(atMs - (parseHttpDate(date) ?? nowMs), 0), maxMs)
}

/** The three forms of RFC 9110 begin with the day's name; `Date.parse` alone would take `-5` and `2` for dates. */
function parseHttpDate(text: string | undefined): number | undefined {
  if (text === undefined || !/^(mon|tue|wed|thu|fri|sat|sun)/i.test(text.trim())) return undefined
  // the asctime form names no zone, and is in UTC
  const parsed = Date.parse(/\b(gmt|utc|[+-]\d{4})$/i.test(text.trim()) ? text : `${text} GMT`)
  return Number.isNaN(parsed) ? undefined : parsed
}
