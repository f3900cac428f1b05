/** The numbers of a lead as people write them: the forms of docs/reference/values.md, and many random ones. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { leadFields, type NumberField } from '../../src/leads/lead.ts'
import { readNumber } from '../../src/leads/read-number.ts'
import { isNumberField, readValue } from '../../src/leads/read-value.ts'
import { numberForms } from '../support/value-forms.ts'

const fields = leadFields.map(({ name }) => name).filter(isNumberField)
const forms = numberForms.map(([written, of, number]) => ({ written, of: of === 'all' ? fields : of, number }))

test('the table of forms covers every field, what is read and what is not', () => {
  for (const field of fields) {
    const own = forms.filter(({ of }) => of.includes(field))
    assert.ok(own.some(({ number }) => number !== undefined) && own.some(({ number }) => number === undefined), field)
  }
  assert.ok(forms.length >= 100)
})

for (const { written, of, number } of forms) {
  test(`${JSON.stringify(written)} as ${of.join(', ')} is ${number ?? 'unknown'}`, () => {
    for (const field of of) {
      const read = readNumber(written, field)
      assert.equal(read === undefined || (read >= 0 && read <= 1e12) ? read : undefined, number, field)
      // as CSV and JSON hand it on
      const value = readValue(written, field, new Set())
      assert.equal(typeof value === 'symbol' ? undefined : value, number, field)
    }
  })
}

test('a mixed number has less than one beside its whole, and what is scaled was not written out already', () => {
  for (const [written, field, number] of [
    ['2 7/8', 'bathrooms', 2.875],
    ['2 8/8', 'bathrooms', undefined],
    ['9,999K', 'price', 9_999_000],
    ['10,000K', 'price', undefined],
    ['999M', 'price', 999_000_000],
    ['1,000M', 'price', undefined],
  ] as const)
    assert.equal(readNumber(written, field), number, written)
})

const comma = (whole: number) => whole.toLocaleString('en-US')
const grouped = (whole: number, by: string) => comma(whole).replaceAll(',', by)
type Write = (value: number) => string
const priceForms: Write[] = [
  String, comma, (v) => `$${comma(v)}`, (v) => `$ ${comma(v)}.00`, (v) => `${comma(v)} USD`, (v) => `USD ${v}`, (v) => `US$${comma(v)}`,
  (v) => `${comma(v)} $`, (v) => `$${comma(v)} OBO`, (v) => `${v / 1e3}e3`,
  (v) => grouped(v, ' '), (v) => grouped(v, '\u00a0'), (v) => grouped(v, '\u202f'), (v) => grouped(v, "'"), (v) => grouped(v, '’'),
  (v) => `\ufeff ${grouped(v, '.')},00 `, (v) => `${v},00`, (v) => `＄${comma(v)}`,
] // biome-ignore format: a list
const sqftForms: Write[] = ['sqft', 'sq ft', 'sq. ft.', 'sq.ft.', 'SF', 'square feet', 'ft²', 'Sq Ft', 'ft2'].flatMap((unit) => [
  (v: number) => `${comma(v)} ${unit}`,
  (v: number) => `${v}${unit}`,
]) // biome-ignore format: a list
const count = (units: string[]): Write[] => [
  String,
  ...units.flatMap((unit) => [(v: number) => `${v} ${unit}`, (v: number) => `${v}${unit}`]),
]

/** Of each field the values that it has, and the forms in which these are written. */
const formsOf: Record<NumberField, [fc.Arbitrary<number>, Write[]][]> = {
  price: [
    [fc.integer({ min: 10_000, max: 999_999_999 }), priceForms],
    [fc.integer({ min: 1, max: 9_999 }).map((thousands) => thousands * 1e3), [(v) => `${v / 1e3}K`, (v) => `$${v / 1e3} thousand`]],
    [fc.integer({ min: 1, max: 99_999 }).map((hundreds) => hundreds * 100), [(v) => `$${(v / 1e3).toFixed(1)}k`]],
    [fc.integer({ min: 1, max: 999_999 }).map((thousands) => thousands * 1e3), [(v) => `${(v / 1e6).toFixed(3)}M`, (v) => `$${v / 1e6} million`]],
    [fc.integer({ min: 100_000, max: 99_999_999 }).map((cents) => cents / 100), [(v) => v.toFixed(2), (v) => `$${v.toLocaleString('en-US', { minimumFractionDigits: 2 })}`, (v) => v.toLocaleString('de-DE', { minimumFractionDigits: 2 })]],
  ],
  sqft: [
    [fc.integer({ min: 1, max: 999_999 }), sqftForms],
  ],
  bedrooms: [
    [fc.integer({ min: 0, max: 99 }), count(['bd', 'br', 'bed', 'beds', 'bedrooms', 'BDRM', 'bds.'])],
  ],
  bathrooms: [
    [fc.integer({ min: 1, max: 396 }).map((quarters) => quarters / 4), count(['ba', 'bath', 'Baths', 'bathrooms', 'ba.'])],
    [fc.integer({ min: 1, max: 98 }).map((whole) => whole + 0.5), [(v) => `${Math.floor(v)} 1/2`, (v) => `${Math.floor(v)}½`, (v) => `${Math.floor(v)}-1/2 ba`, (v) => `${Math.floor(v)},5`]],
  ],
  yearBuilt: [
    [fc.integer({ min: 1600, max: 2100 }), [String, comma, (v) => `Built in ${v}`, (v) => `${v}.0`]],
  ],
} // biome-ignore format: a list
const written = fields.flatMap((field) => formsOf[field].map(([values, writes]) => ({ field, values, writes })))

for (const { field, values, writes } of written) {
  test(`a ${field} in any form of ${writes.length} is read back, with blanks around it and in any case`, () => {
    fc.assert(
      fc.property(
        values,
        fc.constantFrom(...writes),
        fc.constantFrom('', ' ', '\t', '\u00a0'),
        (value, write, blank) => {
          for (const text of [write(value), write(value).toUpperCase(), write(value).toLowerCase()]) {
            assert.equal(readNumber(`${blank}${text}${blank}`, field), value, text)
          }
        },
      ),
      { numRuns: 400 },
    )
  })
}

test('a range, or anything that makes a number doubtful, is unknown in every form', () => {
  const doubts: ((text: string) => string)[] = [
    (text) => `${text}-${text}`, (text) => `${text} - ${text}`, (text) => `${text} to ${text}`, (text) => `-${text}`, (text) => `(${text})`,
    (text) => `~${text}`, (text) => `${text}?`, (text) => `${text}+`, (text) => `from ${text}`, (text) => `${text}/mo`, (text) => `€${text}`,
    (text) => `${text}, ${text}`, (text) => `${text} ${text}`, (text) => `${text} or less`, (text) => `<${text}`, (text) => `${text}%`,
  ] // biome-ignore format: a list
  for (const { field, values, writes } of written) {
    fc.assert(
      fc.property(values, fc.constantFrom(...writes), fc.constantFrom(...doubts), (value, write, doubt) => {
        const text = doubt(write(value))
        // `450 425` is one number with a space
        if (/^\d{1,3} \d{3}$/.test(text)) return
        assert.equal(readNumber(text, field), undefined, text)
      }),
    )
  }
})

test('one dot with three digits behind it is unknown where it may group thousands', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 999 }), fc.integer({ min: 0, max: 999 }), (whole, rest) => {
      const text = `${whole}.${String(rest).padStart(3, '0')}`
      for (const field of ['price', 'sqft', 'yearBuilt'] as const) assert.equal(readNumber(text, field), undefined)
      assert.equal(readNumber(text, 'bathrooms'), Number(text))
    }),
  )
})

test('any text gives a finite number with its own digits, or is unknown, quickly', () => {
  const pieces = fc.constantFrom(
    '1', '2', '350', '000', ',', '.', ' ', '$', 'k', 'M', '½', '/', '-', 'sqft', 'bd', 'ba', 'usd', "'", 'e', '\u200e', '٣', 'obo',
  ) // biome-ignore format: a list
  const texts = fc.oneof(
    fc.string({ unit: 'binary' }),
    fc.array(pieces, { maxLength: 12 }).map((parts) => parts.join('')),
  )
  fc.assert(
    fc.property(texts, fc.constantFrom(...fields), (text, field) => {
      const read = readNumber(text, field)
      if (read === undefined || !Number.isFinite(read)) return
      assert.ok(read >= 0, text)
      assert.ok(/[0-9½¼¾⅛⅜⅝⅞]|studio/i.test(text.normalize('NFKC')), text)
    }),
    { numRuns: 3_000 },
  )
})

// a superscript became a digit, and a ½ behind an invisible character the digits of another number
test('invisible characters, wide ones and all kinds of blanks change nothing; a superscript is no digit', () => {
  for (const text of ['2½', '2\u200b½', '2\u00a0½', '\u200e2 \u202f½\ufeff', '２½', '2 1⁄2', '２．５']) {
    assert.equal(readNumber(text, 'bathrooms'), 2.5, JSON.stringify(text))
  }
  for (const text of ['3²', '3¹', '①', '3₂', '2⅓', '٣', '\u202e53', '1850²']) {
    for (const field of fields) assert.equal(readNumber(text, field), undefined, JSON.stringify(text))
  }
})

test('a text of 64 characters is read, one of 65 is prose', () => {
  assert.equal(readNumber(`${' '.repeat(61)}350`, 'price'), 350)
  assert.equal(readNumber(`${' '.repeat(62)}350`, 'price'), undefined)
})
