import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type ResolvedSearch, resolveSearch } from '../../src/matching/search.ts'
import { distanceMiles } from '../../src/places/distance.ts'
import { places } from '../support/places.ts'

function resolve(type: 'zipcode' | 'text', value: string, radius = 0): ResolvedSearch {
  const search = resolveSearch(places, { type, value, radius })
  assert.ok(!('refused' in search), JSON.stringify(search))
  return search
}

const refusal = (type: 'zipcode' | 'text', value: string, radius = 0) => {
  const search = resolveSearch(places, { type, value, radius })
  return 'refused' in search ? search.refused : undefined
}

const meaning = (...query: Parameters<typeof resolve>) => resolve(...query).meaningSha256.toString('hex')

test('a ZIP without a radius is only its own code', () => {
  const { kind, places: keys, words, homeKey: place } = resolve('zipcode', '78704-1234')
  assert.deepEqual({ kind, keys, words, place }, { kind: 'place', keys: ['78704'], words: null, place: '78704' })
})

test('radius 0 is the same code even where another lies at the same point', () => {
  const [one, other] = [places.find('00901'), places.find('00902')]
  assert.ok(one && other && distanceMiles(one, other) === 0)
  assert.deepEqual(resolve('zipcode', '00901', 0).places, ['00901'])
  assert.ok(resolve('zipcode', '00901', 0.01).places?.includes('00902'))
})

test('a radius reaches exactly so many miles', () => {
  const [home, other] = [places.find('78704'), places.find('78745')]
  assert.ok(home && other)
  const miles = distanceMiles(home, other)
  assert.ok(!resolve('zipcode', '78704', miles - 1e-6).places?.includes('78745'))
  assert.ok(resolve('zipcode', '78704', miles).places?.includes('78745'))
  assert.ok(resolve('zipcode', '78704', miles + 1e-6).places?.includes('78745'))
})

test('an unknown code only matches itself, here or abroad, with any radius', () => {
  assert.deepEqual(resolve('zipcode', '99999', 100).places, ['99999', '99999*'])
  assert.deepEqual(resolve('text', '99999', 100).places, ['99999', '99999*'])
  assert.deepEqual(resolve('zipcode', 'sw1a 1aa', 100).places, ['SW1A1AA'])
})

test('a place has its own codes, and with a radius also those around its centre', () => {
  const own = resolve('text', 'Logan, UT')
  const around = resolve('text', 'Logan, UT', 25)
  assert.deepEqual(own.places, ['84321', '84322', '84323', '84341'])
  assert.ok(own.places?.every((code) => around.places?.includes(code)))
  assert.ok(around.places?.includes('84339'), 'Wellsville')
  assert.equal(own.kind, 'place')
})

test('a small radius takes no code of its own from a place', () => {
  const own = resolve('text', 'Los Angeles, CA').places ?? []
  const small = new Set(resolve('text', 'Los Angeles, CA', 1).places)
  assert.ok(own.every((code) => small.has(code)))
})

test('words before a place are searched within the place', () => {
  const { kind, places: keys, words } = resolve('text', 'pool Logan, UT')
  assert.equal(kind, 'both')
  assert.equal(words, 'pool')
  assert.deepEqual(keys, resolve('text', 'Logan, UT').places)
})

test('words without meaning before a place change nothing', () => {
  assert.equal(meaning('text', 'in the Logan, UT'), meaning('text', 'Logan, UT'))
})

test('other text is words, and its radius means nothing', () => {
  const { kind, places: keys, words, homeKey: place, radiusIgnored } = resolve('text', 'Pool, near the LAKE', 10)
  assert.deepEqual({ kind, keys, words, place }, { kind: 'words', keys: null, words: 'lake near pool', place: '' })
  assert.equal(radiusIgnored, true)
  assert.equal(resolve('text', 'pool', 0).radiusIgnored, false)
  assert.equal(resolve('text', 'Logan, UT', 10).radiusIgnored, false)
})

const equal: readonly (readonly [Parameters<typeof resolve>, Parameters<typeof resolve>])[] = [
  [['zipcode', '78704'], ['zipcode', '78704-1234']],
  [['zipcode', '2134', 5], ['zipcode', '02134', 5]],
  [['zipcode', '78704', 10], ['text', '78704', 10]],
  [['zipcode', 'm5v 3l9'], ['zipcode', 'M5V']],
  [['text', 'Austin, TX', 5], ['text', ' austin,  Texas ', 5]],
  [['text', 'pool Austin, TX'], ['text', 'POOL, Austin TX']],
  [['text', 'pool house'], ['text', 'house the pool, pool']],
  [['text', 'Cañón'], ['text', 'canon']],
  [['text', 'pool', 0], ['text', 'pool', 50]],
] // biome-ignore format: pairs
for (const [one, other] of equal) {
  test(`${JSON.stringify(one)} means what ${JSON.stringify(other)} means`, () =>
    assert.equal(meaning(...one), meaning(...other)))
}

const different: typeof equal = [
  [['zipcode', '78704'], ['zipcode', '78705']],
  [['zipcode', '78704'], ['zipcode', '78704', 10]],
  [['text', 'pool'], ['text', 'pool Austin, TX']],
  [['text', 'Austin, TX'], ['text', 'Austin']],
  [['text', 'Portland, OR'], ['text', 'Portland, ME']],
] // biome-ignore format: pairs
for (const [one, other] of different) {
  test(`${JSON.stringify(one)} does not mean what ${JSON.stringify(other)} means`, () =>
    assert.notEqual(meaning(...one), meaning(...other)))
}

test('a text without a word to search for is refused', () => {
  for (const text of ['the', 'to be or not to be', '?!', '🏠', "don't", ' ']) assert.ok(refusal('text', text), text)
  for (const text of ['pool', 'the pool', '3', 'TX']) assert.equal(refusal('text', text), undefined, text)
})

test('a postal code without a character is refused', () => assert.ok(refusal('zipcode', ' - ')))

test('a radius is from 0 to 100', () => {
  for (const radius of [-0.01, 100.01, Number.NaN]) assert.ok(refusal('zipcode', '78704', radius), String(radius))
  for (const radius of [0, 0.01, 99.99, 100]) assert.equal(refusal('zipcode', '78704', radius), undefined)
})
