import assert from 'node:assert/strict'
import { test } from 'node:test'
import { encoderOf } from '../../src/records/encode.ts'
import { decoderOf } from '../../src/records/encoding.ts'

function read(encoding: string, bytes: Buffer): string | undefined {
  const decode = decoderOf(encoding)
  try {
    return decode(bytes) + decode()
  } catch {
    return undefined
  }
}

for (const encoding of 'windows-1250 windows-1252 windows-1253 windows-1258 iso-8859-2 macintosh ibm866 koi8-r'.split(
  ' ',
)) {
  test(`each byte of ${encoding} is written as it was read`, () => {
    const encode = encoderOf(encoding)
    for (let byte = 0; byte < 256; byte++) {
      const text = read(encoding, Buffer.of(byte))
      if (text !== undefined) assert.deepEqual(encode(Buffer.from(text)), Buffer.of(byte))
    }
  })
}

for (const [encoding, text] of [
  ['utf-16le', 'żółw 東京 😀'],
  ['utf-16be', 'żółw 東京 😀'],
  ['gbk', '北京'],
  ['big5', '台北'],
  ['shift_jis', '東京ｱ'],
  ['euc-kr', '서울'],
] as const) {
  test(`what is written in ${encoding} is read as the same text`, () => {
    const written = encoderOf(encoding)(Buffer.from(`a,"${text}",1\n`))
    assert.equal(read(encoding, written), `a,"${text}",1\n`)
  })
}
