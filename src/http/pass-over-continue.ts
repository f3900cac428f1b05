/** Answers that begin with `100 Continue`, although nobody asked for one: undici breaks the connection at them. */
import type { Socket } from 'node:net'
import type { ExchangeSlot } from './exchange.ts'

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
 * A client passes over every interim answer (RFC 9110, 15.2), and undici over each but a 100. So it reads a 102 instead where
 * `socket`, the connection of `slot`, brings one before the final answer.
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
