/** Reads a stream of text line by line, bounded. */

export const lineCharsMax = 8 * 1024

/** The lines of a stream; one that is longer than any identifier is cut. */
export async function* readLines(stream: AsyncIterable<Buffer | string>): AsyncGenerator<string> {
  const decoder = new TextDecoder()
  let rest = ''
  for await (const chunk of stream) {
    const lines = (rest + (typeof chunk === 'string' ? chunk : decoder.decode(chunk, { stream: true }))).split('\n')
    rest = (lines.pop() ?? '').slice(0, lineCharsMax)
    yield* lines
  }
  yield rest
}
