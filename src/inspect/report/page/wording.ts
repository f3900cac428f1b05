/** The words of a report for times and shares. */
import { timeFormat } from '../../../base/amounts.ts'

export interface Wording {
  timeZone: string
  /** `2026-11-16 06:00` */
  time(at: Date | null): string
  /** `99.2 %`; 100 and 0 only if they are exact. */
  percent(share: number): string
}

function percent(share: number): string {
  if (share === 0 || share === 1) return `${share * 100} %`
  const hundred = share * 100
  if (hundred > 99.9) return 'over 99.9 %'
  return hundred < 0.1 ? 'under 0.1 %' : `${hundred.toFixed(1)} %`
}

export function createWording(timeZone: string): Wording {
  const format = timeFormat(timeZone)
  return {
    timeZone,
    time: (at) => format(at).slice(0, 16),
    percent,
  }
}

/** 1234567 as `1.2M`: for an axis. */
export const short = (value: number): string =>
  new Intl.NumberFormat('en-US', { notation: 'compact', maximumFractionDigits: 1 }).format(value)

/** `2026-W47` as `W47`. */
export const shortWeek = (period: string): string => period.slice(5)

/** `2026-11-21` as `Nov 21`. */
export const shortDay = (day: string): string =>
  new Intl.DateTimeFormat('en-US', { month: 'short', day: 'numeric', timeZone: 'UTC' }).format(
    new Date(`${day}T00:00:00Z`),
  )
