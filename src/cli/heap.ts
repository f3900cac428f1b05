/** How V8's heap may grow in commands that go through very much, of which little lives. */

const growingPercent = 100

/** Garbage is collected at the latest when the heap has doubled: V8 would let it pile up, newer ones more than older ones. */
export async function boundHeap(): Promise<void> {
  const { setFlagsFromString } = await import('node:v8')
  setFlagsFromString(`--heap-growing-percent=${growingPercent}`)
}
