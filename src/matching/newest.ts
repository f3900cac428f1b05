/** Lists of version ids that fall: the newest first. */

export const noIds = new Float64Array()

/** What a search or a place has to offer. */
export interface Newest {
  /** The newest, at most as many as were asked for. */
  ids: Float64Array
  /** Those newer than the last of `ids`, or all, that do not count for another of their house (contract 4.20). */
  leftOut: Float64Array
}

/** Moves the value at the index `at` down to where it belongs in a heap whose smallest value comes first. */
function siftDown(heap: Float64Array, size: number, at: number): void {
  const value = heap[at] as number
  for (;;) {
    let child = 2 * at + 1
    if (child >= size) break
    if (child + 1 < size && (heap[child + 1] as number) < (heap[child] as number)) child += 1
    if ((heap[child] as number) >= value) break
    heap[at] = heap[child] as number
    at = child
  }
  heap[at] = value
}

/**
 * The `limit` largest ids of many falling lists that have no id in common, falling. It leaves a list at the first id that is too
 * small.
 */
export function mergeNewest(lists: readonly Float64Array[], limit: number): Float64Array {
  const heap = new Float64Array(limit)
  let size = 0
  for (const list of lists) {
    for (const id of list) {
      if (size < limit) {
        heap[size] = id
        size += 1
        // a full heap once is cheaper than keeping it one from the start
        if (size === limit) for (let at = (limit >> 1) - 1; at >= 0; at -= 1) siftDown(heap, size, at)
      } else if (id > (heap[0] as number)) {
        heap[0] = id
        siftDown(heap, size, 0)
      } else break
    }
  }
  return heap.subarray(0, size).sort().reverse()
}

/** `mergeNewest` of the listings of places, with those that are left out down to the last. */
export function mergePlaces(places: readonly Newest[], limit: number): Newest {
  const ids = mergeNewest(
    places.map((place) => place.ids),
    limit,
  )
  const leftOut = places.filter((place) => place.leftOut.length > 0).map((place) => place.leftOut)
  if (leftOut.length === 0) return { ids, leftOut: noIds }
  const last = ids.length < limit ? 0 : (ids.at(-1) as number)
  const all = leftOut.flatMap((list) => [...list.filter((id) => id > last)])
  return { ids, leftOut: Float64Array.from(all).sort().reverse() }
}

/**
 * The `limit` newest of lists that may have listings in common. A listing that is left out in one of them does not count at all: the other
 * of its house matches too.
 */
export function mergeOverlapping(lists: readonly Newest[], limit: number): Newest {
  if (lists.length === 1) return lists[0] as Newest
  const leftOut = new Set(lists.flatMap((list) => [...list.leftOut]))
  const counted = new Set(lists.flatMap((list) => [...list.ids]).filter((id) => !leftOut.has(id)))
  const ids = Float64Array.from(counted).sort().reverse().slice(0, limit)
  const last = ids.length < limit ? 0 : (ids.at(-1) as number)
  const newer = [...leftOut].filter((id) => id > last)
  return { ids, leftOut: Float64Array.from(newer).sort().reverse() }
}

/** Reads ids from a text with commas between them, as statements return them. */
export function readIds(text: string | null | undefined): Float64Array {
  return text ? Float64Array.from(text.split(','), Number) : noIds
}
