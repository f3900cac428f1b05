/** Reads an `Accept-Encoding` in an answer, which is about later requests (RFC 9110, 12.5.3). */

/** The name and the weight of an entry: `gzip;q=0.5`. */
function parseEntry(entry: string): { coding: string; weight: number } {
  const [coding = '', ...parameters] = entry.split(';').map((part) => part.trim().toLowerCase())
  const weight = parameters.find((parameter) => /^q\s*=/.test(parameter))?.replace(/^q\s*=\s*/, '')
  return { coding, weight: weight === undefined ? 1 : Number(weight) }
}

/** Whether gzip may be sent: it is named, or `*` is and it is not; a weight of 0 is a no. */
export function acceptsGzip(acceptEncoding: string | undefined): boolean {
  if (acceptEncoding === undefined) return false
  const entries = acceptEncoding.split(',').map(parseEntry)
  const found = entries.find(({ coding }) => /^(x-)?gzip$/.test(coding)) ?? entries.find(({ coding }) => coding === '*')
  return found !== undefined && found.weight > 0
}
