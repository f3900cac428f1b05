import assert from 'node:assert/strict'
import { test } from 'node:test'
import { listingWords, searchWords } from '../../src/matching/words.ts'

const cases: readonly (readonly [string, string])[] = [
  ['Pool/Spa', 'pool spa'],
  ['3-bedroom', '3 bedroom'],
  ['www.example.com/pool?x=1', 'www example com pool x 1'],
  ['Mayagüez CAÑÓN', 'mayaguez canon'],
  ['½ acre', '1 2 acre'],
  ["owner's", 'owner s'],
  ['İstanbul', 'istanbul'],
  ['a\u0000b\ud800c', 'a b c'],
  [' … ', ''],
]
for (const [text, words] of cases) {
  test(`the words of ${JSON.stringify(text)} are ${JSON.stringify(words)}`, () =>
    assert.equal(searchWords(text), words))
}

const nothing = { address: null, secondAddress: null, city: null, state: null, propertyType: null, description: null }

test('a state is searched by its code and its name', () => {
  assert.equal(listingWords({ ...nothing, city: 'Austin', state: 'tx' }), 'austin tx tx texas')
  assert.match(listingWords({ ...nothing, state: 'Texas' }), /\btx\b/)
  assert.equal(listingWords({ ...nothing, state: 'Bavaria' }), 'bavaria')
})

test('a type in capitals with underscores is searched as words', () => {
  assert.equal(listingWords({ ...nothing, propertyType: 'SINGLE_FAMILY' }), 'single family')
})

test('the first 100,000 characters of any description are searched', () => {
  for (const filler of ['x ', '🏠', '한 ', 'é']) {
    const fill = filler.repeat(100_000)
    const last = (before: number) => `${[...fill].slice(0, before).join('')} sauna`
    const has = (description: string) =>
      listingWords({ ...nothing, description })
        .split(' ')
        .includes('sauna')
    assert.ok(has(last(100_000 - 6)), filler)
    assert.ok(!has(last(100_000 - 5)), filler)
  }
})

test('a word that is longer than any query is left out', () => {
  assert.equal(searchWords('x'.repeat(500)), 'x'.repeat(500))
  assert.equal(searchWords(`a ${'x'.repeat(501)} b`), 'a b')
})

test('the searched text stays bounded where normalising makes it longer', () => {
  assert.ok(listingWords({ ...nothing, description: 'ﷺ '.repeat(50_000), address: 'x '.repeat(5e6) }).length <= 200_000)
})
