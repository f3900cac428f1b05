/**
 * What is done beneath undici, by what its documentation does not promise: it parses by WebAssembly, and reads by `socket.read`. The
 * tests in `test/integration/undici.test.ts` say after an upgrade whether that is still so, and still needed.
 */
import type { Socket } from 'node:net'
import { setFlagsFromString } from 'node:v8'
import type { ExchangeSlot } from './exchange.ts'

// V8 compiles that WebAssembly a second time, optimised, after a few hundred bytes: a third of the processor time of a push to one
// user. Now it does so after some 100 answers. A connection must not have been made before.
setFlagsFromString('--wasm-tiering-budget=100000000')

const interim = 'HTTP/1.1 1'
/** A longer head is undici's to refuse. */
const headBytesMax = 16 * 1024

/**
 * Makes every whole interim 100 at the beginning of `bytes` a 102. `at`: where the interim answers end. `isFinal`: whether the final
 * answer begins there; if not, nothing or a part of a head follows.
 */
function renumberContinue(bytes: Buffer): { at: number; isFinal: boolean } {
  for (let at = 0; ; ) {
    const begin = bytes.toString('latin1', at, at + interim.length)
    if (!interim.startsWith(begin)) return { at, isFinal: true }
    const end = begin === interim ? bytes.indexOf('\r\n\r\n', at) : -1
    if (end < 0) return { at, isFinal: false }
    if (bytes.toString('latin1', at + 9, at + 12) === '100') bytes.write('102', at + 9)
    at = end + 4
  }
}

/**
 * A client passes over every interim answer (RFC 9110, 15.2), and undici over each but a 100 that nobody asked for, at which it breaks
 * the connection. So it reads a 102 instead where `socket`, the connection of `slot`, brings one before the final answer.
 */
export function passOverContinue(slot: ExchangeSlot, socket: Socket): void {
  const read = socket.read.bind(socket)
  /** What came of a head that may be an interim one's. */
  let held: Buffer | undefined
  socket.read = (size) => {
    for (;;) {
      const chunk: Buffer | null = read(size)
      if (chunk === null || !slot.awaitsAnswer) return chunk
      const bytes = held ? Buffer.concat([held, chunk]) : chunk
      const { at, isFinal } = renumberContinue(bytes)
      held = undefined
      if (isFinal || bytes.length - at > headBytesMax) {
        slot.awaitsAnswer = false
        return bytes
      }
      if (at < bytes.length) held = bytes.subarray(at)
      if (at > 0) return bytes.subarray(0, at)
    }
  }
}
