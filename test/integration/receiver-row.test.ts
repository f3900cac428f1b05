/** What processes share about a receiver through its row (contract 4.12, 4.17), on a real database. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sql } from 'kysely'
import { systemClock } from '../../src/base/clock.ts'
import type { Database } from '../../src/db/open.ts'
import type { AttemptOutcome } from '../../src/deliveries/attempt.ts'
import type { RecordedAttempt } from '../../src/deliveries/ledger.ts'
import { databaseReceiver } from '../../src/push/database/receivers.ts'
import type { ReceiverStore } from '../../src/push/ledger.ts'
import { Receiver } from '../../src/push/receiver/receiver.ts'
import type { Trouble } from '../../src/push/receiver/trouble.ts'
import { createDatabase } from '../support/database.ts'
import { makeGate } from '../support/gate.ts'
import { collectingReporter } from '../support/push-reporter.ts'

const url = 'https://receiver.example/'
async function begin(db: Database) {
  const row = databaseReceiver(db, url, 1)
  await row.begin(false)
  return row
}
const trouble = { says: 'trouble', inARow: 20, error: '' } as const
const isDown = { is: 'down' } as const
const refuses = (status: number): Trouble => ({ is: 'refuses', status })
const down = { ...trouble, trouble: isDown }
const first = { says: 'try', trouble: isDown as Trouble, kind: 'first' } as const
const second = { ...first, kind: 'second' } as const

const receiverOf = (row: ReceiverStore, notes: string[] = []) =>
  new Receiver({
    row,
    wire: { send: () => assert.fail('nothing is sent'), head: () => assert.fail('nothing is tried') },
    clock: systemClock,
    reporter: collectingReporter([], notes),
    settings: { outageMs: 60_000, compress: 'off', ratePerSecond: undefined, retryDelayMs: 0 },
    ...{ heeds: true, accepts: false, isOfFailed: false, tellsAgain: true },
  })

const note = (receiver: Receiver, httpStatus: number, drawn = true) =>
  receiver.note({ attempt: 1 } as RecordedAttempt, { httpStatus, error: '', durationMs: 1 } as AttemptOutcome, drawn)

// A process that had not heard of the 415 removed it from the row: all went on compressing.
test('an Accept-Encoding counts for nothing for a day after any process got a 415', async (t) => {
  const { db } = await (await createDatabase(t)).open()
  const row = await begin(db)
  const tell = async (takes: boolean) => {
    await row.tell({ says: 'gzip', takes })
    return (await row.read()).gzip
  }
  assert.deepEqual([await tell(true), await tell(false), await tell(true)], ['takes', 'refused', 'refused'])
  await sql`update receivers set refused_gzip_at = now() - interval '25 hours'`.execute(db)
  assert.equal((await row.read()).gzip, null)
  assert.equal(await tell(true), 'takes')
})

// Of two processes that were asked to wait the one with the shorter pause brought all back too early.
test('a shorter pause that another process was asked for takes nothing from a longer one', async (t) => {
  const { db } = await (await createDatabase(t)).open()
  const row = await begin(db)
  const pause = async (pausedMs: number) => {
    await row.tell({ says: 'pace', pausedMs, allowedRate: null })
    return (await row.read()).pace.pausedMs
  }
  assert.ok((await pause(200_000)) > 100_000)
  assert.ok((await pause(1_000)) > 100_000)
  assert.ok((await pause(250_000)) > 200_000)
})

test('a run reads the last success that another run has told of, never its own, and none of the future', async (t) => {
  const { db } = await (await createDatabase(t)).open()
  await begin(db)
  const of = (runId: number) => databaseReceiver(db, url, runId)
  const read = async () => await Promise.all([1, 2].map(async (runId) => (await of(runId).read()).wellMs))
  const isAbout = (wellMs: number | null | undefined, ms: number) => assert.ok(wellMs != null && wellMs >= ms && wellMs < ms + 60_000)
  assert.deepEqual(await read(), [null, null])
  assert.equal(await of(1).tell({ says: 'success', agoMs: 200_000 }), true)
  const [own, ofAnother] = await read()
  assert.equal(own, null)
  isAbout(ofAnother, 200_000)
  // an earlier one is no news
  assert.equal(await of(2).tell({ says: 'success', agoMs: 500_000 }), false)
  isAbout((await read())[1], 200_000)
  assert.equal(await of(2).tell({ says: 'success', agoMs: 0 }), true)
  isAbout((await read())[0], 0)
  // a clock was wrong
  await sql`update receivers set well_at = now() + interval '1 hour'`.execute(db)
  assert.deepEqual(await read(), [null, null])
  assert.equal(await of(1).tell({ says: 'success', agoMs: 0 }), true)
}) // biome-ignore format: a line

// One of three pushes met nobody but users whom the receiver refuses, and was held though the others had just served theirs.
test('a push that is about to be held asks first whether another had a success meanwhile', async (t) => {
  const { db } = await (await createDatabase(t)).open()
  const [one, other] = [1, 2].map((runId) => receiverOf(databaseReceiver(db, url, runId))) as [Receiver, Receiver]
  for (const receiver of [one, other]) {
    await receiver.begin(() => {})
    receiver.pause()
  }
  for (let n = 0; n < 19; n++) await note(one, 401)
  await note(other, 200)
  await other.end(false)
  await note(one, 401)
  assert.equal(one.maySend(0), true)
  for (let n = 0; n < 12; n++) await note(one, 401)
  assert.equal(one.maySend(0), false)
})

test('a push that finds nobody to draw asks so too; a success is told once', async (t) => {
  const { db } = await (await createDatabase(t)).open()
  const told: string[] = []
  const stored = databaseReceiver(db, url, 2)
  const tell: ReceiverStore['tell'] = (news) => {
    told.push(news.says)
    return stored.tell(news)
  }
  const [one, other] = [receiverOf(databaseReceiver(db, url, 1)), receiverOf({ ...stored, tell })]
  for (const receiver of [one, other]) {
    await receiver.begin(() => {})
    receiver.pause()
  }
  await note(one, 200)
  for (let n = 0; n < 30; n++) await note(one, 401, false)
  await note(other, 200)
  for (let n = 0; n < 2; n++) await other.look()
  await one.noteNobodyToDraw()
  assert.equal(one.maySend(0), true)
  await other.end(false)
  assert.deepEqual(told, ['success', 'pace'])
})

// On two connections the recovery overtook the trouble: the next look held a healthy run.
test('the row has the news of a process in their order', async (t) => {
  const { db } = await (await createDatabase(t)).open()
  const row = databaseReceiver(db, url, 1)
  const isLate = makeGate()
  const tell: ReceiverStore['tell'] = async (news) => {
    if (news.says === 'trouble') await isLate.opened
    return await row.tell(news)
  }
  const receiver = receiverOf({ ...row, tell })
  await receiver.begin(() => {})
  receiver.pause()
  const telling = [...Array(20).fill(503), 200].map((httpStatus) => note(receiver, httpStatus))
  // time for the recovery to overtake
  await row.read()
  isLate.open()
  await Promise.all(telling)
  assert.equal((await row.read()).trouble, null)
})

// A look at what others know, under way when the answer came, put the outage back: the push waited for a receiver that was well.
test('an outage that an answer has ended is not learnt again from a look that began before', async (t) => {
  const { db } = await (await createDatabase(t)).open()
  const stored = databaseReceiver(db, url, 1)
  await stored.begin(false)
  await stored.tell(down)
  const isLate = makeGate()
  const receiver = receiverOf({ ...stored, read: () => stored.read().finally(() => isLate.opened) })
  await receiver.begin(() => {})
  receiver.pause()
  const looking = receiver.look()
  const noting = note(receiver, 200)
  isLate.open()
  await Promise.all([looking, noting])
  assert.deepEqual([receiver.maySend(0), (await stored.read()).trouble], [true, null])
})

test('a process learns the finding of another at the same time, and says so', async (t) => {
  const { db } = await (await createDatabase(t)).open()
  const notes: string[] = []
  const receiver = receiverOf(databaseReceiver(db, url, 1), notes)
  await receiver.begin(() => {})
  receiver.pause()
  await databaseReceiver(db, url, 1).tell(down)
  await receiver.look()
  assert.deepEqual([notes, receiver.maySend(0)], [['The receiver is down, as another push found: waiting for it.'], false])
}) // biome-ignore format: a list

test('a push whose first attempts are all made learns what another found before it makes second ones', async (t) => {
  const { db } = await (await createDatabase(t)).open()
  const receiver = receiverOf(databaseReceiver(db, url, 1))
  await receiver.begin(() => {})
  receiver.pause()
  await databaseReceiver(db, url, 1).tell(down)
  assert.deepEqual([receiver.maySend(0), await receiver.noteNoFirstsLeft(), receiver.maySend(0)], [true, true, false])
})

test('a try is one process’s; one that is taken back is there for the next', async (t) => {
  const { db } = await (await createDatabase(t)).open()
  const row = await begin(db)
  const troubleOf = async () => (await row.read()).trouble
  await row.tell(down)
  const taken = await Promise.all([1, 2, 3].map(() => databaseReceiver(db, url, 1).tell({ ...first, tries: 0 })))
  assert.deepEqual(taken.sort(), [false, false, true])
  assert.ok(((await troubleOf())?.nextMs ?? 0) > 10_000)
  const seconds = [await row.tell({ ...second, tries: 1 }), await row.tell({ ...second, tries: 2 }), await row.tell({ ...first, tries: 2 })]
  assert.deepEqual(seconds, [true, false, true])
  // a clock that was ahead for a minute must not keep it from being tried for as long
  await sql`update receivers set second_at = now() + interval '10 days'`.execute(db)
  assert.deepEqual([(await troubleOf())?.secondMs, await row.tell({ ...second, tries: 3 })], [0, true])
  // it stayed taken for the rest of the hour after a stop
  await row.tell({ ...second, says: 'taken back', tries: 4 })
  assert.deepEqual(await troubleOf(), { trouble: { is: 'down' }, tries: 3, nextMs: 0, secondMs: 0 })
  assert.equal(await row.tell({ ...second, tries: 3 }), true)
  assert.equal((await databaseReceiver(db, `${url}other`, 1).read()).trouble, null)
  await row.tell({ says: 'well' })
  assert.deepEqual([await troubleOf(), await row.tell({ ...first, tries: 4 })], [null, false])
}) // biome-ignore format: a table

// A push that had been frozen said so of a receiver that was down, so others began anew: 21 first attempts without an answer.
test('a receiver that asks for less hides no other trouble', async (t) => {
  const { db } = await (await createDatabase(t)).open()
  const row = await begin(db)
  const asks = { ...trouble, trouble: { is: 'asks' } } as const
  assert.deepEqual([await row.tell(down), await row.tell(asks)], [true, false])
  assert.deepEqual((await row.read()).trouble?.trouble, { is: 'down' })
  await row.tell({ says: 'well' })
  assert.deepEqual([await row.tell(asks), await row.tell(down)], [true, true])
}) // biome-ignore format: short

// Its pause of an hour seemed longer than an hour, as after a wrong clock: two pushes tried a receiver that refuses at once.
test('a try holds for a process whose look began before it', async (t) => {
  const { db } = await (await createDatabase(t)).open()
  const row = await begin(db)
  await row.tell({ ...trouble, trouble: refuses(403) })
  await db.transaction().execute(async (early) => {
    await sql`select now()`.execute(early)
    assert.equal(await row.tell({ ...second, trouble: refuses(403), tries: 0 }), true)
    const known = (await databaseReceiver(early, url, 1).read()).trouble
    assert.ok((known?.nextMs ?? 0) > 3_500_000 && (known?.secondMs ?? 0) > 3_500_000, JSON.stringify(known))
  })
})

// A push that knew of refusals took the try of an outage that another had found, and did not make it.
test('a try of one trouble is none of another, nor is it taken back for it', async (t) => {
  const { db } = await (await createDatabase(t)).open()
  const row = await begin(db)
  const triesOf = async () => (await row.read()).trouble?.tries
  for (const [is, other] of [[isDown, refuses(404)], [refuses(404), isDown], [refuses(404), refuses(403)], [{ is: 'asks' }, isDown]] as const) {
    await row.tell({ says: 'well' })
    await row.tell({ ...trouble, trouble: is })
    const try0 = { ...first, trouble: is, tries: 0 }
    assert.deepEqual([await row.tell({ ...try0, trouble: other }), await triesOf(), await row.tell(try0), await triesOf()], [false, 0, true, 1])
    const back = { ...try0, says: 'taken back', tries: 1 } as const
    assert.deepEqual([await row.tell({ ...back, trouble: other }), await triesOf(), await row.tell(back), await triesOf()], [false, 1, true, 0])
  }
}) // biome-ignore format: a table

test('the row has the trouble that was found last; the same trouble again changes nothing', async (t) => {
  const { db } = await (await createDatabase(t)).open()
  const row = await begin(db)
  const told = async (is: Trouble) => [await row.tell({ ...trouble, trouble: is }), (await row.read()).trouble?.trouble]
  const is401 = refuses(401)
  assert.deepEqual([await told(isDown), await told(is401), await told(is401)], [[true, isDown], [true, is401], [false, is401]])
  await row.tell({ ...first, trouble: is401, tries: 0 })
  assert.deepEqual([await told(is401), await told(isDown), await told(isDown)], [[false, is401], [true, isDown], [false, isDown]])
  assert.deepEqual((await row.read()).trouble?.tries, 0)
}) // biome-ignore format: a table
