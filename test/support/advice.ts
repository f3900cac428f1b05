/**
 * Troubles of a push, and a person who does what the program advises, and nothing else: then everybody has one delivery that the receiver
 * took, and a monitor says that all is well. A receiver that takes a delivery answers with the number 200 here.
 */
import assert from 'node:assert/strict'
import { buildHouse, type House, hrefOf, makeUsers } from './house.ts'
import { startProgram } from './program.ts'
import { type Answer, type ReceivedRequest, requestsAtLeast } from './receiver.ts'

type Step = { do?: string; why: string; run?: string[]; or?: { run: string[]; when: string } }
type Answering = (request: ReceivedRequest) => Answer

/** The most commands that may be advised. */
const commandsMax = 5
const listings = (count: number) =>
  Array.from({ length: count }, (_, at) => ({ href: hrefOf(at), postalCode: '78704' }))
const page: Answer = { status: 200, headers: { 'content-type': 'text/html' }, body: '<title>Log in</title>' }
const keyOf = ({ headers }: ReceivedRequest) => String(headers['x-service-api-key'])
const everybody = (answer: Answer) => () => answer
const some = (answer: Answer, users = 2): Answering => {
  const keys = Array.from({ length: users }, (_, at) => `key-${at}`)
  return (request) => (keys.includes(keyOf(request)) ? answer : 200)
}

export interface Trouble {
  users?: number
  /** The answers, one after the other: each time that the advice is to mend something the next one comes; after the last all is well. */
  answers?: Answering[]
  env?: Record<string, string>
  begin?(house: House): Promise<unknown>
  /** Mends what is no matter of the receiver. */
  mend?(house: House): Promise<void>
  /** The person finds right what the guard holds. */
  accepts?: true
}

async function runSql({ database }: House, text: string): Promise<void> {
  const opened = await database.open()
  await opened.pool.query(text)
  await opened.close()
}

const runBefore = (zone: string, count: number) => `
  insert into runs (command, period, time_zone, worker_id, resumable, started_at, ended_at, outcome, came_to_end, listings, filled_fields)
  select 'all', to_char(now() - interval '7 days', 'IYYY-"W"IW'), '${zone}', 1, true, now() - interval '7 days', now() - interval '7 days',
    'complete', true, ${count}, null`

async function killPush({ receiver, env }: House): Promise<void> {
  const push = startProgram(['push', '--all'], { env: { ...env, LEADPUSH_LEASE: '1s', LEADPUSH_CONCURRENCY: '4' } })
  await requestsAtLeast(receiver, 4)
  push.kill('SIGKILL')
  await push.done
  // its lease ends by itself; every command may wait for that
}

export const troubles: Record<string, Trouble> = {
  'the receiver is down': { answers: [everybody(503)] },
  'the receiver only asks for less': { answers: [everybody(429)] },
  'the receiver is down for two users': { users: 2, answers: [everybody('drop')] },
  ...Object.fromEntries(
    [302, 401, 403, 404, 415, 422].map((status) => [`everybody gets HTTP ${status}`, { answers: [everybody(status)] }]),
  ),
  'a login page answers': { users: 42, answers: [everybody(page)] },
  'two users get a login page': { users: 2, answers: [everybody(page)] },
  'all answers are {"ok":false}': { answers: [everybody({ status: 200, body: '{"ok":false}' })] },
  'the keys of two users have expired': { answers: [some(401)] },
  'two deliveries may have arrived': { answers: [some(409)] },
  'some failed, and one is unknown': {
    answers: [(request) => (keyOf(request) === 'key-2' ? 'drop' : some(422)(request))],
  },
  'a refusal, then an outage': { answers: [everybody(401), everybody(503)] },
  'an outage, then a login page': { answers: [everybody(503), everybody(page)] },
  'the guard holds the week': {
    begin: (house) => runSql(house, runBefore('UTC', 1_100)),
    mend: (house) => house.put('leads', listings(1_100)),
  },
  'the time zone is another': {
    begin: (house) => runSql(house, runBefore('Asia/Tokyo', 2)),
    mend: async ({ env }) => {
      env.LEADPUSH_TIME_ZONE = 'Asia/Tokyo'
    },
  },
  'a login page answered, and the time zone is another': {
    users: 42,
    answers: [everybody(page)],
    begin: async (house) => {
      await house.call('push --all')
      // the same week at all times
      await runSql(house, "update runs set time_zone = 'Atlantic/Reykjavik'")
    },
    accepts: true,
  },
  'a push was killed': { answers: [everybody('hang')], begin: killPush },
}

/** Carries out what is advised; returns the commands. */
async function follow(house: House, more: Answering[], { begin, mend, accepts }: Trouble): Promise<string[]> {
  const told = async (args: string) => {
    const { json, stderr } = await house.call(`${args} --json`)
    const steps = json.at(-1)?.advice as Step[] | undefined
    assert.ok(json.at(-1), stderr)
    return steps ?? []
  }
  await begin?.(house)
  let steps = begin === killPush ? [] : await told('push --all')
  const commands: string[] = []
  for (;;) {
    if (steps.length === 0) steps = await told('status')
    const step = steps.find(({ run }) => run)
    if (step?.run === undefined) return commands
    // a person does not wait for an hour either
    const waits = step.or?.when.includes('an hour away') && commands.includes(step.run.join(' '))
    const takesOr = waits || (accepts && step.or?.when === 'if it is right as it is')
    const run = (takesOr && step.or ? step.or.run : step.run).join(' ')
    if (steps.some((step) => step.do)) {
      const next = more.shift()
      takeBy(house, next ?? everybody(200))
      if (next === undefined) await mend?.(house)
    } else if (begin === killPush) takeBy(house, everybody(200))
    commands.push(run)
    assert.ok(commands.length <= commandsMax, `advised: ${commands.join(', ')}`)
    steps = await told(run)
  }
}

const taken = new WeakMap<House, Map<string, Set<string>>>()

/** Lets the receiver answer so, and counts what it takes. */
function takeBy(house: House, answering: Answering): void {
  const ofHouse = taken.get(house) ?? new Map<string, Set<string>>()
  taken.set(house, ofHouse)
  house.receiver.answer = (request) => {
    const answer = answering(request)
    const user = keyOf(request)
    if (answer === 200) ofHouse.set(user, (ofHouse.get(user) ?? new Set()).add(request.key))
    return answer
  }
}

/** Begins a push in that trouble, and does what is advised until nothing is. */
export async function followAdvice(trouble: Trouble): Promise<void> {
  const { users = 24, answers = [everybody(200)], env } = trouble
  const house = await buildHouse({ leads: listings(2), users: makeUsers(users) })
  Object.assign(house.env, { LEADPUSH_OUTAGE: '300ms', LEADPUSH_RETRY_DELAY: '10ms', ...env })
  const [first = everybody(200), ...more] = answers
  takeBy(house, first)
  const commands = await follow(house, more, trouble)
  const keys = [...(taken.get(house) ?? [])].map(([, each]) => each.size)
  assert.deepEqual(keys, Array(users).fill(1), `after ${commands.join(', ')}`)
  const { code, stdout } = await house.call('status --check')
  assert.equal(code, 0, stdout)
}
