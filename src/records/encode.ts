/** Turns the text of records back into the encoding of their file, so that rejected ones are kept as they came (contract 3). */
import { decoderOf } from './encoding.ts'

/** Writes UTF-8 in another encoding. */
export type Encode = (utf8: Buffer) => Buffer

/** The bytes of each character that one or two bytes make: Node.js reads these encodings, and writes none of them. */
function findCharacters(encoding: string): Map<string, Buffer> {
  let decode = decoderOf(encoding)
  const found = new Map<string, Buffer>()
  const look = (...bytes: number[]): boolean => {
    try {
      const text = decode(Buffer.from(bytes)) + decode()
      if (!found.has(text)) found.set(text, Buffer.from(bytes))
      return true
    } catch {
      decode = decoderOf(encoding)
      return false
    }
  }
  for (let first = 0; first < 256; first++) {
    if (look(first)) continue
    for (let second = 0; second < 256; second++) look(first, second)
  }
  return found
}

/** Characters that more bytes make, as some of Chinese and Japanese, stay in UTF-8. */
function writerOf(encoding: string): Encode {
  const characters = findCharacters(encoding)
  return (utf8) =>
    Buffer.concat(Array.from(utf8.toString(), (character) => characters.get(character) ?? Buffer.from(character)))
}

export function encoderOf(encoding: string): Encode {
  if (encoding === 'utf-8') return (utf8) => utf8
  if (encoding === 'utf-16le') return (utf8) => Buffer.from(utf8.toString(), 'utf16le')
  if (encoding === 'utf-16be') return (utf8) => Buffer.from(utf8.toString(), 'utf16le').swap16()
  return writerOf(encoding)
}
