/** Tells when the database is away, and when it answers again. */
import { describeAbsence } from '../../db/away.ts'
import type { Ledger } from '../ledger.ts'
import type { PushReporter } from '../reporter.ts'

/** The ledger with reports of absences: when the first of several statements waits, and when the first goes on. */
export function tellAbsence(ledger: Ledger, reporter: PushReporter): Ledger {
  let isAway = false
  const noteAway = (error: unknown) => {
    if (isAway) return
    isAway = true
    reporter.waits('the database')
    reporter.note(describeAbsence(error))
  }
  return {
    ...ledger,
    async rideOut(work) {
      const result = await ledger.rideOut(work, noteAway)
      if (isAway) {
        isAway = false
        reporter.waits(undefined)
        reporter.note('The database answers again: going on.')
      }
      return result
    },
  }
}
