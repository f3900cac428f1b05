import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import fc from 'fast-check'
import { packageRoot } from '../../src/base/package-root.ts'
import { houseKey, writeHouse } from '../../src/leads/house.ts'
import { directions, suffixNames, unitWords } from '../../src/leads/publication-28.ts'

const write = (address: string | null, secondAddress: string | null = null, postalCode = '78704') =>
  writeHouse({ postalCode, address, secondAddress })

/** Lists of ways to write one address, street and second line. */
const sameHouses: [string, string?][][] = [
  [['123 Main Street'], ['123 MAIN ST'], ['123 Main St.'], ['  123  main,  street '], ['123 Main Str']],
  [['123 Main St Apt 4'], ['123 Main Street, #4'], ['123 Main St', '4'], ['123 Main St.', 'Unit 4'], ['123 Main St Apt #4', 'Apt. 4']],
  [['12 Elm Ave Unit B-12'], ['12 Elm Avenue', 'b12'], ['12 Elm Av', 'Suite B 12']],
  [['2500 N 10000 E'], ['2500 North 10000 East'], ['2500 N. 10000 E.']],
  [['100 N.E. 5th Ave'], ['100 Northeast 5th Avenue'], ['100 NE 5th Av'], ['100 north east 5th ave']],
  [['55 Avenue B', '2nd Floor'], ['55 Ave B Fl 2'], ['55 AVE B, Floor 2']],
  [['1 Oak Dr Bldg 2 Apt 4'], ['1 Oak Drive', 'Unit 4, Building 2'], ['1 Oak Drive Apt 4', 'Bldg 2']],
  [['100 Highway 50'], ['100 Hwy 50']],
  [['443 Bergen St Unit Ph'], ['443 Bergen Street', 'Penthouse'], ['443 Bergen Street PH']],
  [['16 Lincoln Pl Unit Studio'], ['16 Lincoln Place', 'Studio'], ['16 Lincoln Place, #studio']],
  [['12-34 Bell Blvd'], ['12-34 Bell Boulevard']],
  [['7 Calle Cañón'], ['7 CALLE CANON']],
] // biome-ignore format: a line a house

test('an address is the same house however its suffix, its directions, its unit, its case and its signs are written', () => {
  for (const ways of sameHouses) {
    const written = ways.map((way) => write(...way))
    assert.notEqual(written[0], undefined)
    assert.deepEqual(new Set(written).size, 1, JSON.stringify([ways, written]))
  }
})

test('two houses of one street, two units of a building, and two buildings never share a key', () => {
  const houses = [
    '123 Main St', '124 Main St', '123 Main Ave', '123 N Main St', '123 S Main St', '123 Main St N', '12-3 Main St',
    '123 Main St Unit 4', '123 Main St Unit 5', '123 Main St Unit 4B', '123 Main St Bldg 4', '123 Main St Fl 4',
    '123 Main St Rear', '123 Main St Upper', '123 North St', '123 N St', '123 Park Ave', '123 Parks Ave', '123 Lake Dr',
    '123 Lakes Dr', '123 E St', '123 East St', '1 23 Main St', '123b Main St',
  ] // biome-ignore format: a list
  const written = houses.map((house) => write(house))
  assert.deepEqual([new Set(written).size, written.includes(undefined)], [houses.length, false])
  assert.notEqual(write('123 Main St', null, '78705'), write('123 Main St'))
  assert.equal(write('123 Main St', null, '78704-1234'), write('123 Main St'))
})

test('one without an address or a number in front is of no house', () => {
  const none = [
    null, '', 'Main Street', 'Unit 205W', 'Kuaaina Pl Lot A4', '5th Ave', '0 Highway 50', 'Lot 2', '100', '100 N',
    'Tax Id 0000133921',
  ] // biome-ignore format: a list
  for (const address of none) assert.equal(write(address), undefined, String(address))
  assert.equal(writeHouse({ postalCode: '-', address: '123 Main St', secondAddress: null }), undefined)
})

test('200 characters are an address or its second line, one more is prose', () => {
  const written = (chars: number) => [write(`1 ${'x'.repeat(chars - 2)}`), write('1 Main St', 'x'.repeat(chars))]
  for (const chars of [199, 200]) assert.ok(!written(chars).includes(undefined), `${chars}`)
  assert.deepEqual(written(201), [undefined, undefined])
})

test('a word for a unit that is the name of the street stays one', () => {
  assert.notEqual(write('100 S Front'), write('100 S', 'Front'))
  assert.equal(write('100 Front St'), '78704|100||front st||')
  assert.equal(write('12 Key West Dr'), '78704|12||ky west dr||')
})

const pick = <T>(items: Iterable<T>) => fc.constantFrom(...items)
const name = pick(['main', 'oak hill', 'martin luther king', '5th', 'saint james', 'calle luna', 'county road 12'])
const direction = fc.option(pick([...directions].filter(([, letters]) => letters.length <= 2)), { nil: undefined })
const house = fc.record({
  number: fc.oneof(fc.integer({ min: 1, max: 99_999 }).map(String), pick(['12-34', '7b', '1558c'])),
  before: direction,
  name,
  // Main Key N may be a street, or the key N on Main
  suffix: pick([...suffixNames].filter((names) => !names.some((each) => unitWords.has(each)))),
  after: direction,
  unit: fc.option(pick(['4', '4b', 'c', '317-319']), { nil: undefined }),
})
type House = typeof house extends fc.Arbitrary<infer H> ? H : never

/** One of the ways to write a house; `choose` decides between them. */
function spell({ number, before, name, suffix, after, unit }: House, choose: (ways: string[]) => string) {
  const of = (pair: readonly [string, string] | undefined) => (pair ? [choose([...pair])] : [])
  const street = [number, ...of(before), name, choose([...suffix, `${suffix[1]}.`]), ...of(after)].join(
    choose([' ', '  ', ', ']),
  )
  const inCase = choose(['lower', 'upper']) === 'upper' ? street.toUpperCase() : street
  const asUnit = unit && `${choose(['#', ...[...unitWords].map((word) => `${word} `)])}${unit}`
  if (asUnit === undefined) return write(inCase)
  return choose(['one', 'two']) === 'one'
    ? write(`${inCase}, ${asUnit}`)
    : write(inCase, choose([asUnit, unit as string]))
}

test('spelling an address another way never changes its key, and another house never has it', () => {
  fc.assert(
    fc.property(house, house, fc.infiniteStream(fc.nat()), (one, other, numbers) => {
      const choose = (ways: string[]) => ways[(numbers.next().value as number) % ways.length] as string
      const key = spell(one, choose)
      assert.notEqual(key, undefined)
      assert.equal(spell(one, choose), key)
      const same = (['number', 'name', 'unit'] as const).every((field) => one[field] === other[field])
      const letters = ({ before, suffix, after }: House) => [before?.[1], suffix[1], after?.[1]].join()
      if (!same || letters(one) !== letters(other)) assert.notEqual(spell(other, choose), key)
    }),
  )
})

test('a key has 8 bytes', () => {
  assert.equal(houseKey({ postalCode: '78704', address: '1 Elm St', secondAddress: null })?.length, 8)
})

const listings = process.env.TEST_LISTINGS_CSV ?? join(packageRoot, '..', 'shared', 'data', 'homeharvest_listings.csv')

test('real addresses have a house where they begin with a number', { skip: !existsSync(listings) }, () => {
  const lines = readFileSync(listings, 'utf8').match(/\d+ [\w ]+ (?:St|Ave|Dr|Ln|Rd|Blvd)(?= |,)/g) ?? []
  assert.ok(lines.length > 500)
  for (const address of lines) assert.notEqual(write(address), undefined, address)
})
