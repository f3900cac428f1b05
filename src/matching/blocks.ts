/** Covers stretches of version ids with the blocks of `version_blocks` (sql/000001_leads.sql), which the index of words knows. */

const shifts = [12, 15, 18, 21, 24]
const smallest = 2 ** 12
/** The first id of the smallest block that has `id`. */
export function blockStart(id: number): number {
  return Math.floor(id / smallest) * smallest
}

/** The fewest blocks that cover the ids from `from` up to `to`, which is not among them; both are block starts. */
export function blocksBetween(from: number, to: number): number[] {
  const blocks: number[] = []
  let [low, high] = [from / smallest, to / smallest]
  for (let level = 0; level < shifts.length; level += 1) {
    const last = level === shifts.length - 1
    // ids that do not fill a block of the next size get blocks of this size
    while (low < high && (last || low % 8 !== 0)) blocks.push(low++ * 8 + level)
    while (low < high && high % 8 !== 0) blocks.push(--high * 8 + level)
    low /= 8
    high /= 8
  }
  return blocks
}
