/** What is kept of an answer that refuses, and what never is (contract 4.16), and which successes are empty (contract 4.5). */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import fc from 'fast-check'
import { answerCharsMax } from '../../src/base/limits.ts'
import { packageRoot } from '../../src/base/package-root.ts'
import { findEmptySuccess, readAnswer, secretsOf } from '../../src/deliveries/answer.ts'

const answerOf = (body: string | Buffer, contentType: string | undefined = 'application/json', status = 422) => ({
  status,
  contentType,
  contentEncoding: undefined,
  body: Buffer.from(body),
})
const read = (body: unknown, secrets: string[] = []) =>
  readAnswer(answerOf(typeof body === 'string' ? body : JSON.stringify(body)), secrets)
const readAs = (type: string | undefined, body: string, secrets: string[] = []) =>
  readAnswer({ ...answerOf(body), contentType: type }, secrets)

test('the texts of title, detail, msg, message and error of a JSON body are kept, and those below errors', () => {
  assert.equal(read({ title: 'A', detail: 'B', msg: 'C', message: 'D', error: 'E', other: 'F' }), 'A; B; C; D; E')
  assert.equal(
    read({ message: 'no', errors: [{ detail: 'one' }, { msg: 'two', code: 'x' }, 'three'] }),
    'no; one; two; three',
  )
  assert.equal(read({ errors: { title: 'below', other: 'not' } }), 'below')
  assert.equal(read({ errors: { radius: ['must be a number'] } }), 'must be a number')
  assert.equal(read({ error: { message: 'nested', code: 3 } }), 'nested')
  assert.equal(read({ message: 'same', error: 'same' }), 'same')
  assert.equal(read({ ok: false, code: 12, data: { message: 'deep' } }), undefined)
  assert.equal(read({ message: 12, error: null, errors: 3 }), undefined)
  assert.equal(read({ message: ' ' }), undefined)
})

test('the first words of a text are kept, and the title or the words of HTML; nothing of bytes and compressed answers', () => {
  assert.equal(readAs('text/plain', 'the  body\n was refused'), 'the body was refused')
  assert.equal(readAs(undefined, 'plain'), 'plain')
  assert.equal(
    readAs('text/html', '<html><head><title>502 Bad\n Gateway</title></head><body>nginx</body>'),
    '502 Bad Gateway',
  )
  assert.equal(
    readAs(undefined, '<!doctype html><script>x()</script><h1>No&nbsp;way</h1><p>in<b>si</b>de'),
    'No way inside',
  )
  assert.equal(readAs('application/json', '{"message": broken'), '{"message": broken')
  // a JSON answer beyond what is read of one was once shown from its first byte on, the seller's name in it
  const echo = JSON.stringify({ fsbos: [{ contactName: 'Jane Doe', description: 'x'.repeat(70_000) }] })
  assert.equal(readAs('application/json', echo.slice(0, 65_536)), undefined)
  assert.equal(readAs('image/png', 'abc'), undefined)
  assert.equal(readAs(undefined, 'a\0b'), undefined)
  assert.equal(readAs('text/plain', ''), undefined)
  assert.equal(readAnswer({ ...answerOf('{"msg":"x"}'), contentEncoding: 'gzip' }, []), undefined)
  for (const [status, said] of [[399, undefined], [400, 'no'], [503, 'no']] as const)
    assert.equal(readAnswer(answerOf('{"msg":"no"}', undefined, status), []), said) // biome-ignore format: a table
})

test(`at most ${answerCharsMax} characters are kept, and control characters are spelt out`, () => {
  assert.equal(read({ msg: 'x'.repeat(answerCharsMax) })?.length, answerCharsMax)
  const long = read({ msg: 'x'.repeat(answerCharsMax + 1) })
  assert.deepEqual([long?.length, long?.at(-1)], [answerCharsMax, '…'])
  assert.equal(read({ msg: 'a\u001b[31mb\u202ec' })?.includes('\u001b'), false)
  assert.equal(read({ msg: 'a\u001b[31mb' }), 'a\\u001b[31mb')
  assert.equal(read({ msg: 'one\ntwo' }), 'one\\u000atwo')
  assert.ok(read({ msg: `${'x'.repeat(298)}😀😀` })?.isWellFormed())
  assert.ok((read({ msg: 'word '.repeat(20_000) })?.length ?? 0) <= 300)
})

test('keys, e-mail addresses, phone numbers and what a URL may hide are taken out', () => {
  assert.equal(read({ msg: 'Unknown key demo-key-austin!' }, ['demo-key-austin']), 'Unknown key …!')
  assert.equal(read({ msg: 'no DEMO-KEY-austin' }, ['demo-key-austin']), 'no …')
  assert.equal(readAs('text/html', '<p>no demo-key-\naus tin</p>', ['demo-key-austin']), 'no …')
  assert.equal(read({ msg: 'joe.bloggs+x@example.com has it' }), '… has it')
  for (const at of ['(at)', ' [AT] ', '&lt; at &gt;'])
    assert.equal(read({ msg: `joe.bloggs${at}example.com has it, not (that)` }), '… has it, not (that)')
  assert.equal(read({ msg: 'call (512) 555-0143, or 555-0143' }), 'call …, or …')
  assert.equal(read({ msg: 'no \\u006bab-key' }, ['kab-key']), 'no …')
  assert.equal(read({ msg: 'line 12 of 300, HTTP 422' }), 'line 12 of 300, HTTP 422')
  assert.deepEqual(secretsOf('https://u:pw@a.example/hook/abcdefgh?token=t0ken1&a=1'), [
    'u',
    'pw',
    'token=t0ken1&a=1',
    't0ken1',
    'abcdefgh',
  ])
  assert.equal(
    readAs(
      'text/html',
      '<pre>Cannot POST /in/abcdefgh?token=t0ken1</pre>',
      secretsOf('https://a.example/in/abcdefgh?token=t0ken1'),
    ),
    'Cannot POST /in/…?…',
  )
})

/** Ways in which a text may be written that is read as `text`. */
const spellings: ((text: string) => string)[] = [
  (text) => text,
  (text) => text.replace(/./gu, (c) => `&#${c.codePointAt(0)};`),
  (text) => text.replace(/[^a-z0-9]/gi, (c) => `&#x${c.codePointAt(0)?.toString(16)};`),
  (text) => text.replace('@', '&commat;').replace('.', '&period;'),
  (text) => text.replace(/./g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`),
  (text) => JSON.stringify(JSON.stringify(text)),
  (text) => encodeURIComponent(text),
  (text) => text.replace(/./g, (c) => `%${c.charCodeAt(0).toString(16).padStart(2, '0')}`),
  (text) => text.split('').join('\u200b'),
  (text) => text.replace(/[!-~]/g, (c) => String.fromCharCode(c.charCodeAt(0) + 0xfee0)),
  (text) => text.replace(/@/, ' @ '),
  (text) => text.replace(/&/g, '&amp;').replace(/</g, '&lt;'),
]

/** Bodies that say `text`. */
const bodies: ((text: string) => [type: string, body: string])[] = [
  (text) => ['application/json', JSON.stringify({ message: text })],
  (text) => ['application/problem+json', JSON.stringify({ errors: [{ detail: text }] })],
  (text) => ['application/json', JSON.stringify({ message: JSON.stringify({ got: text }) })],
  (text) => ['application/json', JSON.stringify({ error: text }).replace(/[a-z0-9@.-]/gi, (c) => `\\u00${c.charCodeAt(0).toString(16)}`)],
  (text) => ['text/plain', text],
  (text) => ['text/html', `<title>${text}</title>`],
  (text) => ['text/html', `<p>${text.replace(/^(.{3})/, '$1<wbr>')}</p>`],
  (text) => ['application/json', `{"message":"${text}`],
] // biome-ignore format: a list

const demo = readFileSync(join(packageRoot, 'demo/leads.csv'), 'utf8')
const demoEmails = [...new Set(demo.match(/[\w.-]+@[\w.-]+\w/g))]
const demoPhones = [...new Set(demo.match(/\d{3}-\d{3}-\d{4}/g))]
const demoKeys = [
  ...readFileSync(join(packageRoot, 'demo/users.json'), 'utf8').matchAll(/"receiverApiKey": "([^"]+)"/g),
].map(([, key]) => key as string)

const letters = 'abcdefghijklmnopqrstuvwxyz0123456789'
const wordOf = (min: number, max: number) =>
  fc.string({ unit: fc.constantFrom(...letters), minLength: min, maxLength: max })
const emails = fc.oneof(
  fc.constantFrom(...demoEmails),
  fc
    .tuple(wordOf(1, 20), fc.constantFrom('', '.', '+', '_', "'"), wordOf(1, 10), wordOf(1, 20))
    .map(([a, between, b, domain]) => `${a}${between}${b}@${domain}.example`),
)
const phones = fc.oneof(
  fc.constantFrom(...demoPhones),
  fc
    .tuple(
      fc.integer({ min: 2_000_000_000, max: 9_999_999_999 }),
      fc.constantFrom(' ', '-', '.', '', ' - ', '/', '\u2013'),
    )
    .map(([number, between]) => `${number}`.replace(/^(...)(...)/, `($1)${between}$2${between}`)),
)
const keys = fc.oneof(
  fc.constantFrom(...demoKeys),
  fc.string({
    unit: fc.integer({ min: 0x21, max: 0x7e }).map((code) => String.fromCharCode(code)),
    minLength: 8,
    maxLength: 50,
  }),
)
const around = fc.tuple(
  fc.constantFrom('', 'the lead of ', '"', 'key=', '('),
  fc.constantFrom('', ' is wrong', '"', ')', ', again'),
)
const way = fc.tuple(fc.constantFrom(...spellings), fc.constantFrom(...bodies))

const digitsOf = (text: string) => text.replace(/\D/g, '')

test('no e-mail address, phone number or key survives, however it is written, in any body', () => {
  fc.assert(
    fc.property(emails, around, way, (email, [before, after], [spell, build]) => {
      const [type, body] = build(`${before}${spell(email)}${after}`)
      const said = readAs(type, body) ?? ''
      assert.ok(!said.toLowerCase().replace(/\s/g, '').includes(email), `${body} -> ${said}`)
    }),
    { numRuns: 1_500 },
  )
  fc.assert(
    fc.property(phones, around, way, (phone, [before, after], [spell, build]) => {
      const [type, body] = build(`${before}${spell(phone)}${after}`)
      const said = readAs(type, body) ?? ''
      assert.ok(!digitsOf(said.normalize('NFKC')).includes(digitsOf(phone)), `${body} -> ${said}`)
    }),
    { numRuns: 1_500 },
  )
  fc.assert(
    fc.property(keys, around, way, (key, [before, after], [spell, build]) => {
      const [type, body] = build(`${before}${spell(key)}${after}`)
      const said = readAs(type, body, [key]) ?? ''
      assert.ok(!said.includes(key) && !said.normalize('NFKC').includes(key), `${key}: ${body} -> ${said}`)
    }),
    { numRuns: 2_500 },
  )
})

// A receiver that answered with what it had decoded, or logged, had the key kept and shown.
test('no key survives as base64 or hexadecimal digits, wherever it lies in what was encoded', () => {
  const long = fc.string({ unit: fc.constantFrom(...letters), minLength: 9, maxLength: 60 })
  const encodings = ['base64', 'base64url', 'hex'] as const
  fc.assert(
    fc.property(
      long,
      fc.string({ maxLength: 7 }),
      fc.constantFrom(...encodings),
      fc.boolean(),
      (key, before, encoding, upper) => {
        const text = Buffer.from(`${before}${key}":x`).toString(encoding)
        const encoded = upper && encoding === 'hex' ? text.toUpperCase() : text
        const said = readAs('application/json', JSON.stringify({ detail: `not known: ${encoded}` }), [key]) ?? ''
        const rest = said.slice('not known: '.length)
        const back = rest.split('…').map((piece) => Buffer.from(piece.trim(), encoding).toString('latin1'))
        for (const piece of back) {
          for (let at = 0; at + 4 <= key.length; at++)
            assert.ok(!piece.includes(key.slice(at, at + 4)), `${key}: ${said}`)
        }
      },
    ),
    { numRuns: 1_500 },
  )
})

test('the name of a listing survives, be it a URL, an address or the name of a person: so an erasure of the listing deletes the answer', () => {
  const naming = fc.constantFrom(
    'https://listings.example/1',
    '824 Canyon Road',
    'Ann Fletcher',
    'pool behind the house',
  )
  fc.assert(
    fc.property(naming, around, (text, [before, after]) => {
      const said = readAs('application/json', JSON.stringify({ detail: `${before}${text}${after}` })) ?? ''
      assert.ok(said.includes(text), said)
    }),
  )
})

test('a body that was made to take long to read is read all the same', () => {
  for (const piece of ['<', '<script', '<!--', '@', 'a', '1 ', '&#', '%4', '\\u00', '<title>', '"'])
    for (const type of ['text/html', 'text/plain']) {
      const said = readAs(type, piece.repeat(Math.ceil(65_536 / piece.length)))
      assert.ok((said ?? '').length <= 300)
    }
})

test('a success that is a page, or says that it is none, is empty', () => {
  const find = (body: string, contentType: string | undefined) =>
    findEmptySuccess({ ...answerOf(body, undefined, 200), contentType })
  assert.match(find('<p>Log in', 'text/html; charset=utf-8') ?? '', /page/)
  assert.match(find('{"ok":false}', 'application/json') ?? '', /"ok": false/)
  assert.match(find('{"success": false, "x": 1}', undefined) ?? '', /"success": false/)
  // behind a byte order mark it was taken for a success without a word
  assert.match(find('\ufeff{"ok":false}', 'application/json') ?? '', /"ok": false/)
  for (const [body, type] of [
    ['{"ok":true}', 'application/json'], ['{"ok":"false"}', 'application/json'], ['{"ok":0}', 'application/json'],
    ['{"data":{"ok":false}}', 'application/json'], ['[{"ok":false}]', 'application/json'], ['{"ok":false', 'application/json'],
    ['false', 'application/json'], ['', undefined], ['text/html', 'text/plain'],
  ] as const) assert.equal(find(body, type), undefined, body) // biome-ignore format: a list
})
