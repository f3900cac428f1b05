/** `users export` (contract 3): what it prints, an import reads as the same users. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { buildHouse, type House, makeUsers, zip } from '../support/house.ts'

/** Numbers from 0 to 1, the same for the same seed. */
function seeded(seed: number): () => number {
  let state = seed
  return () => {
    state = (state * 1_103_515_245 + 12_345) % 2 ** 31
    return state / 2 ** 31
  }
}

const values = [
  'pool', 'Austin, TX', 'say "pool"', ' pool', 'pool ', 'a;b|c', 'pool\nyard', '=pool+1', '+pool', '-pool', '@pool', '78704.0', '0078704',
  'true', 'piscine été', 'pool\u2028yard', "o'neil", '#pool', 'zipcode', "'pool",
] // biome-ignore format: a list
const keys = ['k', '~'.repeat(50), 'a,b', 'a"b', '=1+1', '-k', 'sealed', "'k", 'true', '0123', '1e5']
const names = ['a', 'B', 'z_', 'a-b', "o'neil", 'é', '+plus', 'a.b', '#c', '0', 'ab', 'Z', '10', '9']

/** Users of all kinds, whose values are awkward. */
function makeAwkward(random: () => number) {
  const one = <T>(list: readonly T[]) => list[Math.floor(random() * list.length)] as T
  return names.map((name) => ({
    email: `${name}@${one(['example.com', 'ex-ample.com'])}`,
    receiverApiKey: one(keys),
    subscribed: random() < 0.7,
    queries: Array.from({ length: Math.floor(random() * 4) }, (_, at) =>
      random() < 0.3
        ? zip(one(['78704', 'M5V 2T6', '78704-1234']), at)
        : { type: 'text', value: one(values), radius: at + one([0, 0.25, 1e-7]) },
    ),
  }))
}

async function exported(house: House, args: string) {
  const { code, stdout, stderr } = await house.call(`users export ${args}`.trim())
  return { code, stdout, stderr }
}

test('exported with keys, imported into an empty database and exported again: the same bytes', async () => {
  for (const seed of [1, 2, 3, 4]) {
    const house = await buildHouse({ users: makeAwkward(seeded(seed)) })
    const whole = await exported(house, '--keys --yes')
    assert.equal(whole.code, 0)
    const emails = whole.stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line).email)
    assert.deepEqual(
      [emails.length, emails],
      [names.length, emails.toSorted((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)))],
    )
    const other = await buildHouse()
    assert.equal((await other.call('users import -', { input: whole.stdout })).code, 0)
    assert.deepEqual(await exported(other, '--keys --yes'), whole, `seed ${seed}`)

    const csv = await exported(house, '--csv --keys --yes')
    const third = await buildHouse()
    assert.equal(
      (await third.call(['users', 'import', '-'], { input: csv.stdout })).code,
      0,
      `seed ${seed}: ${csv.stdout}`,
    )
    const again = await exported(third, '--csv --keys --yes')
    assert.deepEqual([again.code, again.stdout], [0, csv.stdout], `seed ${seed}`)
    // whoever is in the file is there as they were, and everybody else is told
    const kept = new Set((await exported(third, '--keys --yes')).stdout.trimEnd().split('\n'))
    const left = whole.stdout
      .trimEnd()
      .split('\n')
      .filter((line) => !kept.has(line))
    assert.equal(kept.size + left.length, names.length)
    assert.equal(csv.code, left.length > 0 ? 1 : 0)
    if (left.length > 0) assert.match(csv.stderr, new RegExp(`${left.length} users? left out in all`))
  }
})

test('keys are printed only with --keys, which needs a person or --yes', async () => {
  const house = await buildHouse({ users: makeUsers(2) })
  const without = await exported(house, '')
  assert.equal(
    without.stdout,
    makeUsers(2)
      .map(({ email, queries }) => `${JSON.stringify({ email, subscribed: true, queries })}\n`)
      .join(''),
  )
  assert.equal((await exported(house, '--csv')).stdout.split('\n')[0], 'email,subscribed,type,value,radius')
  const asked = await exported(house, '--keys')
  assert.deepEqual([asked.code, asked.stdout], [2, ''])
  assert.match(asked.stderr, /without a terminal it needs --yes/)
  assert.equal((await exported(house, '--yes')).code, 2)
  // users who are known: nothing changes
  const { json } = await house.call('users import - --json', { input: without.stdout })
  assert.deepEqual([json.at(-1).unchanged, json.at(-1).rejected], [2, 0])
})

test('a thousand users come out once each', async () => {
  const house = await buildHouse({ users: makeUsers(1_001) })
  const { stdout } = await exported(house, '')
  assert.equal(new Set(stdout.trimEnd().split('\n')).size, 1_001)
  assert.equal((await exported(await buildHouse(), '')).stdout, '')
})
