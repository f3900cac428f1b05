/** Numbers, sizes and times as people read them, on a terminal and on a page. */

/** 1234567 as 1,234,567. */
export const formatCount = (value: number): string => String(value).replace(/\B(?=(\d{3})+$)/g, ',')

/** `1 user`, `2 users`. */
export function plural(value: number, noun: string): string {
  return `${formatCount(value)} ${value === 1 ? noun : /[^aeiou]y$/.test(noun) ? `${noun.slice(0, -1)}ies` : `${noun}s`}`
}

export function bytes(value: number): string {
  if (value < 1_000) return `${value} B`
  if (value < 1_000_000) return `${(value / 1_000).toFixed(1)} kB`
  return `${(value / 1_000_000).toFixed(value < 1e9 ? 1 : 0)} MB`
}

export function seconds(value: number): string {
  if (value < 10) return `${value.toFixed(1)} s`
  if (value < 120) return `${Math.round(value)} s`
  const whole = Math.round(value)
  return whole < 7_200 ? `${Math.floor(whole / 60)} min ${whole % 60} s` : `${(value / 3_600).toFixed(1)} h`
}

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
