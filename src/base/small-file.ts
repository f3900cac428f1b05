/**
 * Reads a small file with settings or keys at once, bounded in bytes and, for a pipe, in time. Pipes are welcome
 * (`<(pass show database)`), but a pipe without a writer would block the process, deaf to every signal.
 */
import { closeSync, constants, fstatSync, openSync, readSync, type Stats } from 'node:fs'
import { codeOf } from './errors.ts'

const settingBytesMax = 1024 * 1024
const pieceBytes = 64 * 1024
const waitMsMax = 5_000
const lookMs = 10

/** The bytes that can be read now; undefined: none yet. */
function readPiece(file: number): Buffer | undefined {
  const piece = Buffer.allocUnsafe(pieceBytes)
  try {
    return piece.subarray(0, readSync(file, piece))
  } catch (error) {
    if (codeOf(error) === 'EAGAIN') return undefined
    throw error
  }
}

/**
 * The file's text without a byte order mark. Throws the system's error, one that says the file is too long or was silent for `waitMs`,
 * or what `check` throws, which sees the open file before it is read.
 */
export function readSmallFile(
  path: string,
  bytesMax: number = settingBytesMax,
  check: (found: Stats) => void = () => {},
  waitMs: number = waitMsMax,
): string {
  const file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
  try {
    const found = fstatSync(file)
    check(found)
    const isPipe = found.isFIFO()
    const untilMs = performance.now() + waitMs
    const pieces: Buffer[] = []
    for (let bytes = 0; bytes <= bytesMax; ) {
      const piece = readPiece(file)
      // a pipe that nobody has opened yet looks like one at its end
      if (piece === undefined || (piece.length === 0 && isPipe && bytes === 0)) {
        if (performance.now() > untilMs) throw new Error(`nothing came through it for ${waitMs / 1_000} s`)
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
