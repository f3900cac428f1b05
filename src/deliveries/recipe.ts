/**
 * A recipe is the part of a body that the ledger keeps besides its queries: the falling ids of its lead versions. It holds the first
 * id and then each distance to the id before, in base 128, low digits first. 300 ids take about 600 bytes.
 */

/** The longest id: 2^53 in base 128. */
const idBytesMax = 8

/** The recipes of several bodies, concatenated, and their lengths. The version ids of a body must fall strictly. */
export function encodeRecipes(bodies: readonly (readonly { versionId: number }[])[]): {
  bytes: Buffer
  lengths: number[]
} {
  const bytes = Buffer.allocUnsafe(idBytesMax * bodies.reduce((sum, { length }) => sum + length, 0))
  let at = 0
  const lengths = bodies.map((leads) => {
    const begin = at
    let previous: number | undefined
    for (const { versionId } of leads) {
      let rest = previous === undefined ? versionId : previous - versionId
      if (!(rest > 0)) throw new RangeError('the ids of a recipe fall')
      // not `>>`, which is 32 bits wide
      for (; rest >= 128; rest = Math.floor(rest / 128)) bytes[at++] = (rest % 128) + 128
      bytes[at++] = rest
      previous = versionId
    }
    return at - begin
  })
  return { bytes: bytes.subarray(0, at), lengths }
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
