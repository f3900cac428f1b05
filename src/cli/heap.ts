/** Bounds the growth of V8's heap in commands that handle much short-lived data. */
import { setFlagsFromString } from 'node:v8'

const growingPercent = 100

/** Collects garbage at the latest when the heap has doubled: V8, above all in newer versions, would let garbage pile up. */
export function boundHeap(): void {
  setFlagsFromString(`--heap-growing-percent=${growingPercent}`)
}
