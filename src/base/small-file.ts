/**
 * A file that holds settings, one of them, or keys, read at once and bounded: in bytes, and in time where it is a pipe. A pipe is as good
 * as a file (`<(pass show database)`), but one that nobody writes to would hold up the process, deaf to every signal.
 */
import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs'
import { codeOf } from './errors.ts'

const settingBytesMax = 1024 * 1024
const pieceBytes = 64 * 1024
const waitMsMax = 5_000
const lookMs = 10

/** What there is to be read now; undefined: nothing yet. */
function readPiece(file: number): Buffer | undefined {
  const piece = Buffer.allocUnsafe(pieceBytes)
  try {
    return piece.subarray(0, readSync(file, piece))
  } catch (error) {
    if (codeOf(error) === 'EAGAIN') return undefined
    throw error
  }
}

/** Its text, without a byte order mark. Throws what the system says, or that it is too long or too late. */
export function readSmallFile(path: string, bytesMax: number = settingBytesMax): string {
  const file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
  try {
    const isPipe = fstatSync(file).isFIFO()
    const untilMs = performance.now() + waitMsMax
    const pieces: Buffer[] = []
    for (let bytes = 0; bytes <= bytesMax; ) {
      const piece = readPiece(file)
      // a pipe that nobody has opened yet looks like one at its end
      if (piece === undefined || (piece.length === 0 && isPipe && bytes === 0)) {
        if (performance.now() > untilMs) throw new Error(`nothing came through it for ${waitMsMax / 1_000} s`)
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, lookMs)
        continue
      }
      if (piece.length === 0) return new TextDecoder().decode(Buffer.concat(pieces))
      pieces.push(piece)
      bytes += piece.length
    }
    throw new Error(`it holds more than ${bytesMax} bytes`)
  } finally {
    closeSync(file)
  }
}
