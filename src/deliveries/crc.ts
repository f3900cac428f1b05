/** Combines the CRC-32s of pieces into that of the whole, without reading it again: polynomials over GF(2), bits reversed. */

const polynomial = 0xedb88320
const one = 0x80000000

/** a · b modulo the polynomial. */
function multiply(a: number, b: number): number {
  let product = 0
  let factor = b
  for (let bits = a; bits !== 0; bits <<= 1) {
    if (bits < 0) product ^= factor
    factor = factor & 1 ? (factor >>> 1) ^ polynomial : factor >>> 1
  }
  return product >>> 0
}

/** x to the power of 8, 16, 32 …: the factors that move a CRC over 1, 2, 4 … bytes. */
const shifts = [0x00800000]
for (let index = 1; index < 31; index++) {
  const before = shifts[index - 1] as number
  shifts.push(multiply(before | 0, before))
}

/** The factor that moves a CRC over `bytes` bytes, for `combineCrcs`. */
export function findCrcShift(bytes: number): number {
  let shift = one
  for (let [rest, index] = [bytes, 0]; rest > 0; rest >>>= 1, index++) {
    if (rest & 1) shift = multiply((shifts[index] as number) | 0, shift)
  }
  return shift
}

/** The CRC of bytes with the CRC `before`, followed by a piece with `crc`; `shift` is the `findCrcShift` of its length. */
export const combineCrcs = (before: number, { crc, shift }: { crc: number; shift: number }): number =>
  (multiply(before | 0, shift) ^ crc) >>> 0
