/** The live view of `receiver`: a line a request, its problems below, and on a terminal the counts so far. */

import { bytes, formatCount, plural } from '../../base/amounts.ts'
import type { ReceivedDelivery } from '../../receiver-kit/receiver/receiver.ts'
import type { CommandIo } from '../command-io.ts'
import { paint } from '../painted.ts'
import { startProgress } from '../progress.ts'

/** The most bytes that wait for a slow reader. Further requests are not shown, so that no request is held up. */
const waitingBytesMax = 4 * 1024 * 1024

export interface ReceiverView {
  show(delivery: ReceivedDelivery): void
  /** Tells what came in all. */
  end(): void
  stop(): void
}

const describeApplied = ({ new: added, changed, unchanged, kept }: NonNullable<ReceivedDelivery['applied']>) =>
  [
    `${formatCount(added)} new`,
    `${formatCount(changed)} changed`,
    `${formatCount(unchanged)} unchanged`,
    ...(kept > 0 ? [`${plural(kept, 'value')} kept by the null rule`] : []),
  ].join(', ')

/** The lines for a person. */
function describeRequest(delivery: ReceivedDelivery): string[] {
  const { at, status, msg, user, queries, leads, applied, times, problems } = delivery
  const isTaken = status !== null && status < 300
  const answer = paint(isTaken ? 'green' : 'red', status === null ? '–––' : String(status))
  const who = user === null ? '' : `  user ${user}`
  const what = isTaken ? `${plural(leads, 'lead')} for ${plural(queries, 'query')}, ` : ''
  const how = applied ? describeApplied(applied) : problems.length > 0 && !isTaken ? 'refused' : msg
  const again = times > 1 ? ` (key seen ${times} times)` : ''
  const head = `${at.toTimeString().slice(0, 8)}  ${answer}${who}  ${what}${bytes(delivery.bytes)}: ${how}${again}`
  const wrong = problems.map(
    ({ clause, path, message }) => `               ${path} ${message} (docs/contract-delivery.md ${clause})`,
  )
  return [head, ...wrong]
}

/** Counts of all that came. */
class Totals {
  private requests = 0
  private taken = 0
  private readonly leads = { new: 0, changed: 0, unchanged: 0, kept: 0 }

  add({ status, applied }: ReceivedDelivery): void {
    this.requests++
    if (status !== null && status < 300) this.taken++
    for (const name of ['new', 'changed', 'unchanged', 'kept'] as const) this.leads[name] += applied?.[name] ?? 0
  }

  text(): string {
    const others = this.requests - this.taken
    const refused = others > 0 ? `, ${formatCount(others)} not` : ''
    return `${plural(this.requests, 'request')}: ${formatCount(this.taken)} taken${refused}; leads: ${describeApplied(this.leads)}`
  }
}

export async function createReceiverView(io: CommandIo): Promise<ReceiverView> {
  const json = io.out.isJson
  const totals = new Totals()
  let unshown = 0
  // off a terminal the lines alone are enough
  const progress = await startProgress(io, (columns) =>
    json || columns === Infinity ? undefined : totals.text().slice(0, columns),
  )
  return {
    show(delivery) {
      totals.add(delivery)
      if (io.stdout.writableLength > waitingBytesMax) unshown++
      else io.out.resultSoon({ type: 'request', ...delivery }, ...describeRequest(delivery))
    },
    end() {
      progress.stop()
      if (unshown > 0) io.log.warn(`${plural(unshown, 'request')} came faster than they were read, and were not shown.`)
      if (!json) io.log.info(totals.text())
    },
    stop: () => progress.stop(),
  }
}
