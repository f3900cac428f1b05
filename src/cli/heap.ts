/** Bounds the growth of V8's heap in commands that handle much short-lived data. */

const growingPercent = 100

/** Collects garbage at the latest when the heap has doubled: V8, its newer versions even more, would let it pile up. */
export async function boundHeap(): Promise<void> {
  const { setFlagsFromString } = await import('node:v8')
  setFlagsFromString(`--heap-growing-percent=${growingPercent}`)
}
