import assert from 'node:assert/strict'
import { test } from 'node:test'
import { IgnoredFields } from '../../src/records/ignored-fields.ts'
import { foldQueries, type Query, queryHash, serialiseQuery } from '../../src/users/query.ts'
import { type ParsedUser, parseUser } from '../../src/users/user.ts'

const email = 'user-1@example.com'
const parse = (value: unknown): ParsedUser => parseUser(value, new IgnoredFields())
const pathOf = (value: unknown) => {
  const parsed = parse(value)
  return 'path' in parsed ? parsed.path : undefined
}
const query = (at: number) => ({ type: 'text', value: `word${at}`, radius: 0.5 })
const queries = (count: number) => Array.from({ length: count }, (_, at) => query(at))

const cases: [string, unknown, string | undefined][] = [
  ['an e-mail alone', { email }, undefined],
  ['an e-mail of 253 characters', { email: `${'x'.repeat(241)}@example.com` }, undefined],
  ['an e-mail of 254 characters', { email: `${'x'.repeat(242)}@example.com` }, undefined],
  ['an e-mail of 255 characters', { email: `${'x'.repeat(243)}@example.com` }, 'email'],
  ['no e-mail', {}, 'email'],
  ['a null e-mail', { email: null }, 'email'],
  ['an e-mail without @', { email: 'user.example.com' }, 'email'],
  ['an e-mail with two @', { email: 'a@b@example.com' }, 'email'],
  ['an e-mail with a space', { email: 'a b@example.com' }, 'email'],
  ['an e-mail with a line end in it', { email: 'a@exam\nple.com' }, 'email'],
  ['an e-mail with half a surrogate pair', { email: 'a\ud800@example.com' }, 'email'],
  ['an e-mail without a host', { email: 'a@' }, 'email'],
  ['a key of 1 character', { email, receiverApiKey: '!' }, undefined],
  ['a key of 50 characters', { email, receiverApiKey: '~'.repeat(50) }, undefined],
  ['a key of 51 characters', { email, receiverApiKey: 'k'.repeat(51) }, 'receiverApiKey'],
  ['an empty key', { email, receiverApiKey: '' }, 'receiverApiKey'],
  ['a key with a space', { email, receiverApiKey: 'a b' }, 'receiverApiKey'],
  ['a key that is not ASCII', { email, receiverApiKey: 'clé' }, 'receiverApiKey'],
  ['a key with a line end', { email, receiverApiKey: 'a\n' }, 'receiverApiKey'],
  ['a key that is a number', { email, receiverApiKey: 12 }, 'receiverApiKey'],
  ['subscribed as text', { email, subscribed: 'true' }, 'subscribed'],
  ['queries that are no list', { email, queries: {} }, 'queries'],
  ['no queries', { email, queries: [] }, undefined],
  ['999 queries', { email, queries: queries(999) }, undefined],
  ['1,000 queries', { email, queries: queries(1_000) }, undefined],
  ['1,001 queries', { email, queries: queries(1_001) }, 'queries'],
  ['1,001 queries of which two are the same', { email, queries: [...queries(1_000), query(1)] }, undefined],
  ['a query that is null', { email, queries: [null] }, 'queries[0]'],
  ['a query without type', { email, queries: [{ value: 'x' }] }, undefined],
  ['a query of another type', { email, queries: [query(1), { type: 'zip', value: 'x' }] }, 'queries[1].type'],
  ['an empty value', { email, queries: [{ type: 'text', value: '' }] }, 'queries[0].value'],
  ['a value of 499 characters', { email, queries: [{ type: 'text', value: '🏠'.repeat(499) }] }, undefined],
  ['a value of 500 characters', { email, queries: [{ type: 'text', value: '🏠'.repeat(500) }] }, undefined],
  ['a value of 501 characters', { email, queries: [{ type: 'text', value: '🏠'.repeat(501) }] }, 'queries[0].value'],
  ['a value with a NUL', { email, queries: [{ type: 'text', value: 'a\0' }] }, 'queries[0].value'],
  ['a value that is a number', { email, queries: [{ type: 'zipcode', value: 78704 }] }, 'queries[0].value'],
  ['a radius of 99.99', { email, queries: [{ ...query(1), radius: 99.99 }] }, undefined],
  ['a radius of 100', { email, queries: [{ ...query(1), radius: 100 }] }, undefined],
  ['a radius of 100.01', { email, queries: [{ ...query(1), radius: 100.01 }] }, 'queries[0].radius'],
  ['a radius of -0.01', { email, queries: [{ ...query(1), radius: -0.01 }] }, 'queries[0].radius'],
  ['a radius as text', { email, queries: [{ ...query(1), radius: '5' }] }, 'queries[0].radius'],
  ['a list', [], ''],
  ['null', null, ''],
]
for (const [what, value, path] of cases) {
  test(`a user with ${what} is ${path === undefined ? 'taken' : `rejected at ${path || 'the record'}`}`, () => {
    assert.equal(pathOf(value), path)
  })
}

test('an e-mail is kept in lower case, a value as given, a radius that is missing, null or -0 as 0', () => {
  const given = [
    { type: 'text', value: ' Austin ' },
    { type: 'zipcode', value: '78704', radius: null },
    { type: 'text', value: 'x', radius: -0 },
  ]
  const parsed = parse({ email: 'User-1@Example.COM', queries: given })
  assert.ok('user' in parsed)
  assert.equal(parsed.user.email, email)
  assert.equal(
    parsed.user.queries?.map(serialiseQuery).join(),
    '{"type":"text","value":" Austin ","radius":0},{"type":"zipcode","value":"78704","radius":0},{"type":"text","value":"x","radius":0}',
  )
})

test('null counts as absent', () => {
  const parsed = parse({ email, receiverApiKey: null, subscribed: null, queries: null })
  assert.ok('user' in parsed)
  assert.equal(JSON.stringify(parsed.user), JSON.stringify({ email }))
})

for (const [radius, hash] of [
  [5, 'x5'],
  [2.5, 'x2.5'],
  [-0, 'x0'],
  [10.0, 'x10'],
  [1e-7, 'x1e-7'],
] as const) {
  test(`the hash of x with a radius of ${radius} is ${hash}`, () =>
    assert.equal(queryHash({ value: 'x', radius }), hash))
}

test('two queries with one hash are refused with an error that names both', () => {
  const given = [
    { type: 'text', value: 'Highway 1', radius: 10 },
    { type: 'text', value: 'pool' },
    { type: 'text', value: 'Highway 11' },
    { type: 'text', value: 'Highway 110', radius: 0 },
  ]
  const parsed = parse({ email, queries: given })
  assert.ok('message' in parsed)
  assert.equal(parsed.path, 'queries[2]')
  assert.match(parsed.message, /query 1 \(text "Highway 1", radius 10\) and query 3 \(text "Highway 11", radius 0\)/)
})

test('the same query twice is one, where it stands first', () => {
  const [a, b, c] = [query(1), query(2), query(3)] as Query[]
  assert.deepEqual(foldQueries([a, b, { ...a }, c, b, a] as Query[]), [a, b, c])
})

test('two queries with one hash are refused even where their types differ', () => {
  const given = [
    { type: 'text', value: '78704', radius: 5 },
    { type: 'zipcode', value: '78704', radius: 5 },
  ]
  assert.equal(pathOf({ email, queries: given }), 'queries[1]')
})

test('no message holds the receiver key', () => {
  for (const receiverApiKey of ['secret key', 'secret'.repeat(20), ['secret'], { secret: 'secret' }]) {
    const parsed = parse({ email, receiverApiKey })
    assert.ok('message' in parsed && !parsed.message.includes('secret'))
  }
})

test('unknown fields of a user or a query are counted', () => {
  const ignored = new IgnoredFields()
  parseUser(
    {
      email,
      name: 'x',
      queries: [
        { ...query(1), id: 1 },
        { ...query(2), id: 2 },
      ],
    },
    ignored,
  )
  assert.deepEqual(ignored.toObject(), { name: 1, 'queries.id': 1 })
})

// U+200B and a soft hyphen made three users of one.
test('an e-mail is stored without what nobody sees and without blanks around it', () => {
  for (const text of [
    ' user-1@example.com\n',
    'User-1\u200b@example.com',
    'user-1@exam\u00adple.com',
    '\ufeffuser-1\u202e@example.com',
  ]) {
    const parsed = parse({ email: text })
    assert.equal('user' in parsed && parsed.user.email, email, JSON.stringify(text))
  }
})
