/** The files of the Delete Request and Opt-out Platform, as its technical specifications 1.2.0 have them. */
import assert from 'node:assert/strict'
import { hash, randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import fc from 'fast-check'
import { type CountryCode, getExampleNumber, parsePhoneNumberFromString } from 'libphonenumber-js/max'
import examples from 'libphonenumber-js/mobile/examples'
import { findContacts, parseContact } from '../../src/leads/contacts.ts'
import { findDropFiles, readWorkItems } from '../../src/leads/drop-files.ts'
import {
  hashIdentifier,
  parseDropFileName,
  parseDropHash,
  standardiseEmail,
  standardisePhone,
} from '../../src/leads/drop-format.ts'
import { marksOfFields } from '../../src/leads/marks.ts'

const folder = mkdtempSync(join(tmpdir(), 'leadpush-drop-'))
after(() => rmSync(folder, { recursive: true }))

function put(name: string, text: string): string {
  const path = join(folder, name)
  writeFileSync(path, text)
  return path
}

const base64 = (kind: 'email' | 'phone', text: string) => hashIdentifier(kind, text)?.toString('base64')
const someHash = hash('sha256', 'x', 'base64')

test('the published examples have their published hashes', () => {
  assert.equal(base64('phone', '+1(415)555-9317'), 'vGM7y5n+hBXRSEAklhHDPCbysyNgYTmXdMcagGUOY8E=')
  assert.equal(base64('phone', '+84(90)123 4567'), 'ptzVkgbv9DonwvPCHmXmJ2SEOaolSh37z3ZzY/Gmm+U=')
})

test('an e-mail address loses its white space and its capitals, and nothing else', () => {
  assert.equal(standardiseEmail(' A.lice+Tag @Co.COM\u00a0\n'), 'a.lice+tag@co.com')
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme' }), (text) => {
      const once = standardiseEmail(text)
      assert.ok(!/\s/.test(once))
      assert.equal(standardiseEmail(once), once)
    }),
  )
})

test('a phone number is its last 10 digits, or all where it has fewer', () => {
  for (const [text, digits] of [
    ['415-555-931', '415555931'],
    ['415-555-9317', '4155559317'],
    ['1-415-555-9317', '4155559317'],
    ['call me', ''],
  ] as const) {
    assert.equal(standardisePhone(text), digits)
  }
  assert.equal(hashIdentifier('phone', 'call me'), undefined)
  assert.equal(hashIdentifier('email', ' '), undefined)
})

const usNumbers = fc
  .tuple(
    fc.constantFrom('201', '212', '415', '512', '737', '808', '907'),
    fc.integer({ min: 2_000_000, max: 9_999_999 }),
  )
  .map(([area, rest]) => parsePhoneNumberFromString(`+1${area}${rest}`))
  .filter((number) => number?.isValid() === true)

test('every number of the United States that libphonenumber knows is found in each of its spellings, and hashed alike', () => {
  fc.assert(
    fc.property(usNumbers, fc.constantFrom('', 'call ', 'Jane Doe, '), (number, before) => {
      assert.ok(number)
      const national = number.nationalNumber as string
      const key = randomBytes(32)
      const kinds = { href: false, contact: false, list: true }
      const [mark] = marksOfFields(key, { contactName: national, contactPhone: null, contactEmail: null }, kinds)
      for (const text of [
        number.formatNational(),
        number.formatInternational(),
        number.number,
        number.getURI(),
        national,
        national.replace(/^(...)(...)/, '$1.$2.'),
      ]) {
        assert.equal(parseContact(text), national, text)
        assert.ok(findContacts(before + text).includes(national), text)
        assert.equal(standardisePhone(text), national, text)
        const fields = { contactName: null, contactPhone: `${before}${text} ext 12`, contactEmail: null }
        assert.ok(
          marksOfFields(key, fields, kinds).some((one) => mark && one.equals(mark)),
          text,
        )
      }
    }),
  )
})

test('a number of another country is hashed as the platform does, beside any text', () => {
  const key = randomBytes(32)
  const kinds = { href: false, contact: false, list: true }
  for (const country of ['GB', 'DE', 'MX', 'IN', 'VN', 'CA'] as CountryCode[]) {
    const number = getExampleNumber(country, examples)
    assert.ok(number)
    const text = number.formatInternational()
    const [mark] = marksOfFields(key, { contactName: null, contactPhone: text, contactEmail: null }, kinds)
    const marks = marksOfFields(key, { contactName: `Owner ${text}`, contactPhone: null, contactEmail: null }, kinds)
    assert.ok(
      marks.some((one) => mark && one.equals(mark)),
      text,
    )
  }
})

test('the name of a file tells its list; other names are none', () => {
  for (const [name, type] of [
    ['20260801_1234_Email.csv', 'Email'],
    ['/tmp/x/20260801_1234_Phone_part01.csv', 'Phone'],
    ['20260801_1234_Removed.csv', 'Removed'],
    ['20260801_1234_NDZ.csv', 'NDZ'],
    ['20260801_1234_email.csv', undefined],
    ['2026081_1234_Email.csv', undefined],
    ['20260801_123_Email.csv', undefined],
    ['20260801_1234_Email_.csv', undefined],
    ['20260801_1234_Email_12345678901.csv', undefined],
    ['20260801_1234_Email.csv.gz', undefined],
    ['20260801_1234_DROP.zip', undefined],
  ] as const) {
    assert.equal(parseDropFileName(name), type, name)
  }
})

test('a hash is 32 bytes in Base64', () => {
  const bytes = randomBytes(32)
  assert.deepEqual(parseDropHash(bytes.toString('base64')), bytes)
  for (const text of ['', bytes.toString('hex'), bytes.toString('base64url'), bytes.toString('base64').slice(1)]) {
    if (text !== bytes.toString('base64')) assert.equal(parseDropHash(text), undefined, text)
  }
})

async function readAll(name: string) {
  const [file] = findDropFiles([name])
  assert.ok(file)
  const items = []
  for await (const page of readWorkItems(file)) items.push(...page)
  return items.map(({ id, kind }) => [id, kind])
}

test('work items are read as spreadsheets write them too; of removed ones those whose list leadpush takes', async () => {
  const list = put('20260801_1234_Email.csv', `\ufeffID,Hash\r\nA7kP2xQ9Lm4R,${someHash}\r\n"B",${someHash}`)
  assert.deepEqual(await readAll(list), [['A7kP2xQ9Lm4R', 'email'], ['B', 'email']]) // biome-ignore format: short
  const rows = ['Email', 'NDZ', 'Phone', 'MAID'].map((type, at) => `item${at},${someHash},${type}\n`)
  const removed = put('20260801_1234_Removed.csv', `ID,Hash,ListType\n${rows.join('')}`)
  assert.deepEqual(await readAll(removed), [['item0', 'email'], ['item2', 'phone']]) // biome-ignore format: short
  assert.deepEqual(await readAll(put('20260802_1234_Phone.csv', 'ID,Hash\n')), [])
})

test('a broken file is told with its line, and without what stands in it', async () => {
  for (const [text, message] of [
    ['', /is empty: it has not even a header/],
    [`${someHash}\n`, /line 1: must have the columns ID,Hash/],
    [`ID,Hash,ListType\nA,${someHash},Email\n`, /line 1: must have the columns ID,Hash/],
    [`ID,Hash\nA,${someHash}\nB,secret\n`, /line 3: Hash must be a SHA-256 in Base64/],
    [`ID,Hash\nse-cret,${someHash}\n`, /line 2: ID must be letters and digits/],
    [`ID,Hash\nA\n`, /line 2: Hash must be a SHA-256 in Base64/],
    [`ID,Hash\nA,${someHash},x\n`, /line 2: has 3 cells where the header has 2/],
    [`ID,Hash\nA,"${someHash}\n`, /breaks off inside quotes/],
  ] as const) {
    const name = put('20260803_1234_Email.csv', text)
    await assert.rejects(
      readAll(name),
      (error: Error) => message.test(error.message) && !/se-?cret/.test(error.message),
    )
  }
  const removed = put('20260803_1234_Removed.csv', `ID,Hash,ListType\nA,${someHash},Mail\n`)
  await assert.rejects(readAll(removed), /line 2: ListType must be one of Email, Phone/)
})

test('a list that no listing could match, one under another name, and a folder are refused', () => {
  assert.throws(
    () => findDropFiles([put('20260801_1234_NDZ.csv', '')]),
    /listings have nothing that a list of the type NDZ/,
  )
  assert.throws(() => findDropFiles([put('list.csv', '')]), /is not named as the platform names its lists/)
  assert.throws(() => findDropFiles([join(folder, '20260809_1234_Email.csv')]), /there is no such file/)
})
