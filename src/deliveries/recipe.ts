/**
 * A recipe is what the ledger keeps of a body besides its queries: the ids of the lead versions in it, falling, as bytes:
 * the first id and then each one's distance to the one before, in base 128, low digits first. 300 ids take about 600 bytes.
 */

/** `versionIds` must fall strictly. */
export function encodeRecipe(versionIds: readonly number[]): Buffer {
  const bytes: number[] = []
  let previous: number | undefined
  for (const id of versionIds) {
    let rest = previous === undefined ? id : previous - id
    if (!(rest > 0)) throw new RangeError('the ids of a recipe fall')
    // not `>>`, which is 32 bits wide
    for (; rest >= 128; rest = Math.floor(rest / 128)) bytes.push((rest % 128) + 128)
    bytes.push(rest)
    previous = id
  }
  return Buffer.from(bytes)
}

export function decodeRecipe(recipe: Uint8Array): number[] {
  const versionIds: number[] = []
  let value = 0
  let scale = 1
  for (const byte of recipe) {
    value += (byte % 128) * scale
    scale *= 128
    if (byte >= 128) continue
    const previous = versionIds.at(-1)
    versionIds.push(previous === undefined ? value : previous - value)
    value = 0
    scale = 1
  }
  return versionIds
}
