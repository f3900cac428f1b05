/** Builds the bodies of attempts, plain or compressed, in buffers that are reused. */
import type { LeadWithJson } from '../leads/lead-store.ts'
import { BodyBuffers, buildBody } from './body.ts'
import { GzipBodies } from './gzip-body.ts'
import type { RecordedAttempt } from './ledger.ts'

export class Bodies {
  private readonly buffers = new BodyBuffers()
  private readonly gzipBodies = new GzipBodies()

  /** Throws a RangeError if the body has another length than was planned. */
  build({ queryList, bytes, gzip }: RecordedAttempt, leads: readonly LeadWithJson[]): Buffer {
    const { buffers, gzipBodies } = this
    if (gzip) return gzipBodies.build(queryList, leads, bytes, buffers)
    return buildBody(queryList, leads, bytes, buffers.take(bytes))
  }

  /** The attempt is over: nothing reads its body any more. */
  giveBack(body: Buffer): void {
    this.buffers.giveBack(body)
  }

  /** Listings were erased, or the same ids mean others. */
  forget(): void {
    this.gzipBodies.clear()
  }
}
