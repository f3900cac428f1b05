/** A delivery as one line for people, as a push and the list of deliveries print it. */
import { bytes, partOf, plural } from '../../base/amounts.ts'
import type { DeliveryLine } from '../../index.ts'
import { paintStatus } from '../painted.ts'

type Told = Pick<DeliveryLine, 'user' | 'kind' | 'part' | 'parts' | 'leads' | 'bytes' | 'status' | 'attempts'>

export const userOf = (email: string | null): string => email ?? '(removed user)'

/** `why`: what went wrong, in one line. */
export function formatDelivery(line: Told, why: string | null): string {
  const what = `${plural(line.leads, 'lead')}, ${bytes(line.bytes)}${partOf(line)}`
  const how = line.attempts > 1 ? `, ${line.attempts} attempts` : ''
  return `${userOf(line.user)}  ${paintStatus(line.status)}  ${line.kind}, ${what}${how}${why === null ? '' : `: ${why}`}`
}
