/** Numbers, sizes and times as people read them, on a terminal and on a page. */

/** 1234567 as 1,234,567. */
export const formatCount = (value: number): string => String(value).replace(/\B(?=(\d{3})+$)/g, ',')

/** `1 user`, `2 users`, `2 queries`; `standby` is two words in one. */
export function plural(value: number, noun: string): string {
  const isIes = /[^aeiou]y$/.test(noun) && !noun.endsWith('standby')
  return `${formatCount(value)} ${value === 1 ? noun : isIes ? `${noun.slice(0, -1)}ies` : `${noun}s`}`
}

/** `a`, `a and b`, `a, b and c`. */
export const listed = (items: readonly string[], joint = 'and'): string =>
  [...items.slice(0, -2), items.slice(-2).join(` ${joint} `)].join(', ')

/** For a delivery that is one of several: `, part 2 of 3`; else nothing. */
export const partOf = ({ part, parts }: { part: number; parts: number }): string =>
  parts > 1 ? `, part ${part} of ${parts}` : ''

/** The answer to an attempt: `HTTP 503`, or no answer. */
export const formatStatus = (httpStatus: number | null): string =>
  httpStatus === null ? 'no answer' : `HTTP ${httpStatus}`

const byteUnits = ['B', 'kB', 'MB', 'GB', 'TB']

/** A size in decimal units: 123456789 as `123.5 MB`. */
export function bytes(value: number): string {
  // a value that rounds to 1000.0 is 1 of the next unit
  const at = byteUnits.findIndex((_, unit) => value < 999.95 * 1_000 ** unit || unit === byteUnits.length - 1)
  return at === 0 ? `${value} B` : `${(value / 1_000 ** at).toFixed(1)} ${byteUnits[at]}`
}

export function seconds(value: number): string {
  if (value < 10) return `${value.toFixed(1)} s`
  if (value < 120) return `${Math.round(value)} s`
  const whole = Math.round(value)
  return whole < 7_200 ? `${Math.floor(whole / 60)} min ${whole % 60} s` : `${(value / 3_600).toFixed(1)} h`
}

/** Milliseconds as `0.4 ms`, `250 ms`, `1.2 s`, `2 min`. */
export function milliseconds(value: number): string {
  if (value < 1_000) return `${value < 10 ? Number(value.toFixed(1)) : Math.round(value)} ms`
  const inSeconds = value / 1_000
  if (inSeconds < 120) return `${Number(inSeconds.toPrecision(inSeconds < 10 ? 2 : 3))} s`
  return `${Math.round(inSeconds / 60)} min`
}

/** The seconds from a moment of `performance` to now, to the millisecond. */
export const secondsSince = (startedMs: number): number => Math.round(performance.now() - startedMs) / 1_000

/** The shortest beginning of a UUID that names it on a command line, and the one that is shown. */
export const idCharsMin = 8
export const shortId = (id: string): string => id.slice(0, idCharsMin)

/** `8 days`, `36 hours`: in the largest unit that makes it 1 or more. */
export function span(seconds: number): string {
  const units = [
    ['day', 86_400],
    ['hour', 3_600],
    ['minute', 60],
  ] as const
  const [name, length] = units.find(([, length]) => seconds >= length) ?? ['second', 1]
  return plural(Math.floor(seconds / length), name)
}

/** Times as people of the zone read them. */
export function timeFormat(timeZone: string): (time: Date | null) => string {
  // the first use of Intl takes longer than all else in a short command
  if (timeZone === 'UTC') return (time) => time?.toISOString().replace(/T(.*)\..*/, ' $1') ?? ''
  // of the locales that come with every Node.js the one that writes 2026-11-16 07:30:00
  const format = new Intl.DateTimeFormat('sv-SE', { timeZone, dateStyle: 'short', timeStyle: 'medium' })
  return (time) => (time === null ? '' : format.format(time))
}

/** `about 19 a second`; slow ones by the minute. */
export function formatRate(ratePerSecond: number): string {
  if (ratePerSecond >= 10) return `about ${Math.round(ratePerSecond)} a second`
  if (ratePerSecond >= 1) return `about ${ratePerSecond.toFixed(1)} a second`
  return `about ${(ratePerSecond * 60).toFixed(1)} a minute`
}
