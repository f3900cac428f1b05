/** What `leadpush explain` tells of a listing and a user, beside what pushes and previews really do. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isDeepStrictEqual } from 'node:util'
import { sql } from 'kysely'
import { importDays } from '../../src/base/limits.ts'
import { tell } from '../../src/cli/explain/view.ts'
import { explain } from '../../src/inspect/explain/explain.ts'
import { buildHouse, hrefOf, zip } from '../support/house.ts'
import { defaults } from '../support/push-settings.ts'
import { startWay } from '../support/way.ts'

const text = (value: string, radius = 0) => ({ type: 'text', value, radius })
const near = {
  href: hrefOf('near'),
  postalCode: '78758-1234',
  description: 'A house with two swimming pools.',
  city: 'Austin',
  state: 'TX',
}
const large = 'x'.repeat(2_600_000)
const leads = [
  near,
  { href: hrefOf('far'), postalCode: '78205', description: 'Sauna' },
  { href: hrefOf('large'), postalCode: '97201', description: large },
  { href: hrefOf('larger'), postalCode: '97202', description: large },
  { href: hrefOf('nowhere'), postalCode: '00000' },
  ...Array.from({ length: 302 }, (_, at) => ({ href: hrefOf(`busy-${at}`), postalCode: '02134' })),
]
const busy = { email: 'busy@example.com', receiverApiKey: 'busy', queries: [zip('02134')] }
const users = [
  {
    email: 'user@example.com',
    receiverApiKey: 'user',
    queries: [
      zip('SW1A 1AA', 5),
      zip('78704', 10),
      text('pools sauna', 3),
      text('pool Austin, TX', 1),
      zip('78704', 71.41),
    ],
  },
  busy,
  { email: 'parts@example.com', receiverApiKey: 'parts', queries: [zip('97201'), zip('97202')] },
  { email: 'none@example.com', receiverApiKey: 'none', queries: [] },
  { email: 'off@example.com', receiverApiKey: 'off', subscribed: false, queries: [zip('78704', 10)] },
  { email: 'failed@example.com', receiverApiKey: 'failed', queries: [zip('78758'), text('Nowheresville, TX')] },
  { email: 'dropped@example.com', receiverApiKey: 'dropped', queries: [zip('78758')] },
]

const house = await buildHouse({
  leads,
  users,
  answer: ({ headers, key }) => {
    const user = String(headers['x-service-api-key'])
    if (user === 'failed') return 500
    if (user === 'dropped') return 'drop'
    return user === 'user' && house.receiver.keys().get(key)?.length === 1 ? 503 : 200
  },
})
const opened = await house.database.open()

/** Within this process: a hundred programs would take long. */
async function ask(email: string, name: string, maxLeadAgeMs = defaults.maxLeadAgeMs) {
  const facts = await explain(opened.db, { email, href: hrefOf(name) }, { ...defaults, maxLeadAgeMs })
  return { ...facts, ...tell(facts, maxLeadAgeMs, () => 'THEN'), facts }
}
const queriesOf = async (email: string, name: string) => (await ask(email, name)).queries

test('each query is told with its distance, its words, its rank, and whether it brings the listing', async () => {
  assert.deepEqual(await queriesOf('user@example.com', 'near'), [
    '2. zipcode "78704", 10 miles: 78758 is 9.9 miles from 78704. It matches, the 1st newest of 1. It belongs to this query.',
    '4. text "pool Austin, TX", 1 mile: 78758 is one of the codes of the place; it has "pool". It matches, the 1st newest of 1.',
    '5. zipcode "78704", 71.41 miles: 78758 is 9.9 miles from 78704. It matches, the 1st newest of 1.',
    '1. zipcode "SW1A 1AA", 5 miles: how far 78758 is from SW1A1AA is in no table, so only the same code would match. It does not match.',
    '3. text "pools sauna", 3 miles: it has "pools" (as "pool"), but it does not have "sauna"; the radius means nothing without a place. It does not match.',
  ])
  const far = await ask('user@example.com', 'far')
  assert.equal(far.answer, 'No: it matches none of the queries that user@example.com has (5).')
  assert.match(
    far.queries[3] ?? '',
    /^4\. .* 78205 is 76\.1 miles from the centre of the place, which is too far; it does not have "pool"\./,
  )
  assert.match(far.queries[4] ?? '', /78205 is 71\.414 miles from 78704, which is too far/)
  assert.equal((await ask('none@example.com', 'near')).answer, 'No: none@example.com has no queries.')
  assert.match(
    (await queriesOf('failed@example.com', 'far'))[0] ?? '',
    /78205 is .* miles from 78758, and without a radius that is elsewhere/,
  )
  assert.match(
    (await queriesOf('failed@example.com', 'near'))[1] ?? '',
    /^2\. text "Nowheresville, TX": .*; it looks like a place, but no such place is known\. It does not match\.$/,
  )
  assert.match((await queriesOf('user@example.com', 'nowhere'))[1] ?? '', /how far 00000 is from 78704 is in no table/)
})

test('the 300th newest is sent, the 301st is cut off, and what would bring it in is told', async () => {
  const last = await ask(busy.email, 'busy-299')
  assert.deepEqual([last.facts.queries[0]?.rank, last.facts.queries[0]?.matching], [300, 302])
  assert.match(
    last.answer,
    /^Not yet: the next `leadpush push --all` sends it, in the weekly delivery of \d{4}-W\d\d\.$/,
  )
  const cut = await ask(busy.email, 'busy-300')
  assert.deepEqual([cut.facts.queries[0]?.rank, cut.planned], [301, null])
  assert.equal(
    cut.answer,
    'No: it matches, but is at best the 301st newest, and of a query only the newest 300 are sent.',
  )
  assert.match(
    cut.queries[0] ?? '',
    /the 301st newest of 302, and only 300 are sent: it would be if it changed, which makes it the newest\.$/,
  )
})

test('it plans what a preview shows, for every user and listing', async () => {
  const { stdout } = await house.call('preview --body')
  const { json } = await house.call('preview --json')
  const bodies = stdout
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line))
  const lines = json.filter(({ type }) => type === 'delivery')
  assert.equal(bodies.length, lines.length)
  const cases: [string, string[]][] = [
    ['user@example.com', ['near', 'far']],
    [busy.email, ['busy-299', 'busy-300']],
    ['parts@example.com', ['large', 'larger', 'near']],
    ['none@example.com', ['near']],
  ]
  for (const [email, name] of cases.flatMap(([email, names]) => names.map((name) => [email, name] as const))) {
    const holds = ({ fsbos }: { fsbos: { href: string }[] }) => fsbos.some(({ href }) => href === hrefOf(name))
    const at = lines.findIndex(({ user }, at) => user === email && holds(bodies[at]))
    const { planned } = await ask(email, name)
    assert.deepEqual(planned && [planned.part, planned.parts], at < 0 ? null : [lines[at].part, lines[at].parts], name)
    const query = planned && users.find((user) => user.email === email)?.queries[planned.query - 1]
    if (query) assert.ok(bodies[at].queryList.some((listed: object) => isDeepStrictEqual(listed, query)))
  }
  const { queries } = await ask('parts@example.com', 'larger')
  assert.equal(queries.at(-1), 'A push now would send it in part 2 of 2.')
})

test('a listing that is too old, and one that is too large, are told', async () => {
  await sql`update lead_seen set seen_at = seen_at - interval '2 days'`.execute(opened.db)
  const old = await ask('user@example.com', 'near', 86_400_000)
  assert.equal(
    old.answer,
    'No: it was last seen in an import 2 days ago, on THEN, and a listing that no import had for 1 day is not sent.',
  )
  assert.match(
    old.queries[0] ?? '',
    /10 miles: 78758 is 9\.9 miles from 78704\. It would match if it were not too old\.$/,
  )
  assert.ok((await ask('user@example.com', 'near')).planned)
})

test('a sent listing is shown with each attempt and its answer, and with the changes since', async () => {
  assert.equal((await house.call('push --all')).code, 1)
  const sent = await ask('USER@example.com', 'near')
  assert.match(
    sent.answer,
    /^Yes: it was sent to user@example\.com on THEN, in the weekly delivery of \S+, and the receiver took it \(HTTP 200\)\.$/,
  )
  assert.match(
    sent.deliveries[0] ?? '',
    /^The weekly delivery of \S+, begun THEN, key \S+, held it as it is now\. It is delivered \(THEN HTTP 503: .*; THEN HTTP 200\)\.$/,
  )
  assert.match(
    (await ask('failed@example.com', 'near')).answer,
    /^No: the weekly delivery of \S+ held it, and failed: HTTP 500: .*`leadpush push --failed`\.$/,
  )
  assert.match(
    (await ask('dropped@example.com', 'near')).answer,
    /^Perhaps: .* whether it arrived is unknown: .*`leadpush push --failed --unknown`\.$/,
  )
  assert.match(
    (await ask('off@example.com', 'near')).answer,
    /^No: off@example\.com is not subscribed\. `leadpush push --user off@example\.com`/,
  )
  assert.match((await ask('parts@example.com', 'larger')).deliveries[0] ?? '', /, part 2 of 2, begun/)

  await house.put('leads', [
    { ...near, price: 3, description: 'A pool' },
    { href: hrefOf('later'), postalCode: '78704' },
  ])
  const changed = await ask('user@example.com', 'near')
  assert.match(
    changed.answer,
    /^Yes: .* Since then price and description have changed: that goes out with the next week's delivery\.$/,
  )
  const later = await ask('user@example.com', 'later')
  assert.match(
    later.answer,
    /^Not yet: the weekly delivery of \S+ was made on THEN, before it was imported\. It goes out with the next week's\.$/,
  )
  assert.deepEqual(later.deliveries, ['No delivery is known to have held it.'])
  // it named `push --failed`, which serves subscribed users alone, and plans anew
  await house.put('users', [{ email: 'dropped@example.com', subscribed: false }])
  assert.match(
    (await ask('dropped@example.com', 'near')).answer,
    /^Perhaps: .*\. Mend the cause, then run `leadpush push --user dropped@example\.com`\.$/,
  )
  await house.put('users', [{ email: 'dropped@example.com', subscribed: true }])
  await house.put('leads', [{ ...near, price: 3, postalCode: '97201' }])
  assert.match((await ask('failed@example.com', 'near')).answer, /HTTP 500: .* made anew would not have it\.$/)
  assert.match((await ask('user@example.com', 'near')).answer, /\. Since then postalCode and price have changed\.$/)
})

test('the program prints it, and as JSON', async () => {
  const shown = await house.call(['explain', '--user', 'user@example.com', hrefOf('near')])
  assert.equal(shown.code, 0, shown.stderr)
  assert.match(
    shown.stdout,
    /^Yes: it was sent .*\n\nuser@example\.com is subscribed, had .*\nIt lies in 97201, was first imported .*\n\nQueries\n[\s\S]*\n\nDeliveries\nThe weekly/,
  )
  const { code, json, stdout } = await house.call(['explain', '--user', 'user@example.com', hrefOf('near'), '--json'])
  const [{ type, user, href, answer, queries, deliveries }] = json
  assert.deepEqual([code, json.length, type, user, href], [0, 1, 'explanation', 'user@example.com', hrefOf('near')])
  assert.ok(shown.stdout.startsWith(answer))
  assert.deepEqual(
    [queries[1].distanceMiles > 1_000, queries[1].matches, queries[3].words[0].found],
    [true, false, true],
  )
  assert.deepEqual([deliveries[0].changed, deliveries[0].attemptLog.length], [['postalCode', 'price'], 2])
  assert.doesNotMatch(stdout, /recipe|userId|receiverKey/)

  // nothing of it is there; from now on it is refused
  assert.equal((await house.call('leads forget --href -', { input: hrefOf('erased') })).code, 1)
  const cases: [string[], RegExp][] = [
    [['--user', 'user@example.com', hrefOf('erased')], /There is no listing .*\n.*erased with `leadpush leads forget`/],
    [['--user', 'nobody@example.com', hrefOf('near')], /There is no user "nobody@example\.com"/],
    [['--user', 'user@example.com', 'near'], /The listing "near" must be an absolute http: or https: URL/],
    [['--user', 'user@example.com', hrefOf('gone')], /There is no listing .*\n.*pruned or erased/],
    [
      ['--user', 'user@example.com', hrefOf('near').replace('https:', 'http:')],
      /There is "https:\/\/listings\.example\/near"/,
    ],
    [[hrefOf('near')], /--user <email>/],
  ]
  for (const [args, message] of cases) {
    const { code, stdout, stderr } = await house.call(['explain', ...args])
    assert.deepEqual([code, stdout], [2, ''], args.join(' '))
    assert.match(stderr, message)
  }
  // what a browser makes of the URL was no listing once
  for (const href of [`${hrefOf('near')}/`, hrefOf('near').replace('listings', 'LISTINGS')]) {
    const { code, json, stderr } = await house.call(['explain', '--user', 'user@example.com', href, '--json'])
    assert.deepEqual([code, json[0]?.href], [0, hrefOf('near')])
    assert.match(stderr, /Taken: the listing https:\/\/listings\.example\/near/)
  }
})

test('content that is no longer stored is not made up', async () => {
  await sql`delete from lead_versions where superseded_at is not null`.execute(opened.db)
  const pruned = await ask('user@example.com', 'near')
  assert.match(pruned.answer, /^Unknown: it may have been in a delivery of \S+, whose content is no longer stored\.$/)
  assert.match(
    pruned.deliveries[1] ?? '',
    /^1 further delivery may have had it, with content that is no longer stored \(\S+\)/,
  )
  // the other listings of that time are still all known
  assert.match((await ask(busy.email, 'busy-301')).answer, /^No: it matches, but/)

  assert.equal((await house.call(`users remove ${busy.email}`)).code, 0)
  await house.put('users', [busy])
  assert.match((await ask(busy.email, 'busy-0')).answer, /^Unknown: it may have been in a delivery/)
})

// An import was kept for as long as one of its listings, so that a feed of years had a row for every day of them.
test('a listing is explained whose import was so long ago that it is no more', async () => {
  await sql`delete from imports`.execute(opened.db)
  const { listing, facts, answer } = await ask('user@example.com', 'near')
  assert.equal(facts.importedAt, null)
  assert.match(
    listing,
    new RegExp(`^It lies in \\d{5}\\b.*, was first imported more than ${importDays} days ago, was last seen`),
  )
  assert.match(answer, /^Unknown: it may have been in a delivery/)
})

// A database that was away for a moment ended them with 3.
test('a connection that breaks ends neither an explanation nor a preview', async () => {
  const way = await startWay(house.database.url)
  for (const [args, asked] of [
    [`explain --user user@example.com ${hrefOf('near')}`, 'from queries q'],
    ['preview --user user@example.com', 'from users u where email'],
    ['preview --force', 'from users u'],
  ] as const) {
    way.loseAnswer(asked)
    const { code, stderr } = await house.call(args, { env: { DATABASE_URL: way.url } })
    assert.deepEqual([code, way.toLose()], [0, 0], stderr)
  }
})
