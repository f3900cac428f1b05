/** Carries a scenario out: whole pushes, as they are, in virtual time; then a calm push to the end, by which all must be served. */

import type { PushRequest, PushSettings } from '../../src/push/run-push.ts'
import { Random } from '../chaos/random.ts'
import { testPushSettings } from '../support/push-settings.ts'
import { LedgerModel } from './ledger-model.ts'
import { claimKey, type DeliveryRow, type LedgerState } from './ledger-state.ts'
import { markOf } from './model-ledger.ts'
import { type Fate, SimulatedProcess, type Surroundings } from './process.ts'
import { SimulatedReceiver } from './receiver.ts'
import type { Event, Moment, Push, Scenario, SimulatedUser } from './scenario.ts'
import { receiverKeyOf } from './themes.ts'
import { World } from './world.ts'

/** A Wednesday. */
export const epochMs = Date.UTC(2026, 10, 18, 12)
export const period = '2026-W47'
export const periodBefore = '2026-W46'
export const receiverUrl = 'http://receiver.example/in'
const hourMs = 3_600_000
/** No run takes longer. */
const virtualMsMax = 30 * hourMs
const turnsMax = 1_000_000

const usual = testPushSettings(receiverUrl, { timeoutMs: 5_000 })

export const emailOf = (user: number) => `user-${user}@example.com`

const toUser = (user: number, { places, subscribed }: Pick<SimulatedUser, 'places' | 'subscribed'>) => ({
  id: user + 1,
  email: emailOf(user),
  receiverKey: receiverKeyOf(user),
  homeKey: places[0] ?? '',
  subscribed,
  places,
})

export interface Outcome {
  scenario: Scenario
  processes: readonly SimulatedProcess[]
  /** How many of them the scenario has; the others are calm. */
  pushes: number
  receiver: SimulatedReceiver
  model: LedgerModel
  /** The ledger when the last push of the scenario had ended. */
  before: (Pick<LedgerState, 'claims' | 'receivers'> & { deliveries: readonly DeliveryRow[] }) | undefined
  /** Confirmed rows were lost. */
  lost: boolean
  /** It did not come to its end. */
  isEndless: boolean
  trace: readonly string[]
  happenings: number
  happened: readonly { event: Event; atMs: number }[]
}

export function carryOut(scenario: Scenario, traces = false): Outcome {
  const world = new World()
  const random = new Random('run', scenario.seed)
  const mathRandom = Math.random
  Math.random = () => random.next()
  try {
    return new Simulation(scenario, world, random, traces).run()
  } finally {
    Math.random = mathRandom
  }
}

class Simulation {
  private readonly scenario: Scenario
  private readonly settings: PushSettings & { awayMs: number }
  private readonly world: World
  private readonly random: Random
  private readonly model: LedgerModel
  private readonly receiver: SimulatedReceiver
  private readonly processes: SimulatedProcess[] = []
  private readonly trace: string[] = []
  private readonly traces: boolean
  private readonly around: Surroundings
  private awayUntil = 0
  private losing: { untilMs: number; share: number } = { untilMs: 0, share: 0 }
  private isCalm = false
  private lost = false
  private servers = 1
  /** Events that wait for a statement. */
  private readonly aimed: { event: Event; moment: Moment }[] = []
  /** How many statements of each push and name were sent. */
  private readonly sent = new Map<string, number>()
  private readonly happened: { event: Event; atMs: number }[] = []

  constructor(scenario: Scenario, world: World, random: Random, traces: boolean) {
    this.scenario = scenario
    this.settings = { ...usual, ...scenario.settings }
    this.world = world
    this.random = random
    this.traces = traces
    this.model = new LedgerModel(() => epochMs + world.now)
    this.receiver = new SimulatedReceiver(world, random, scenario, (text) => this.tell(text))
    this.around = {
      world,
      random,
      model: this.model,
      receiver: this.receiver,
      fate: (push, statement) => this.fate(push, statement),
      tell: (text) => this.tell(text),
    }
    this.furnish()
  }

  private tell(text: string | (() => string)): void {
    if (this.traces)
      this.trace.push(`${this.world.now.toFixed(1).padStart(10)}  ${typeof text === 'string' ? text : text()}`)
  }

  private furnish(): void {
    const { model, scenario } = this
    for (const place of scenario.listings)
      model.addListing(place, JSON.stringify({ postalCode: place, n: model.state.lastVersion }))
    for (const [at, { places, subscribed, leadsBefore }] of scenario.users.entries()) {
      const email = emailOf(at)
      model.addUser(toUser(at, { places, subscribed }))
      if (leadsBefore === undefined) continue
      const queriesMark = markOf(places)
      model.state.claims.set(claimKey(`weekly:${periodBefore}`, email), {
        claimedAt: epochMs - 7 * 24 * hourMs,
        leads: leadsBefore,
        queriesMark,
      })
    }
    const run = model.startRun({ command: 'all', resumable: true, timeZone: 'UTC', maxLeadAgeMs: 1, workerIds: [0] })
    const row = model.state.runs.get(run.id)
    const past = epochMs - 7 * 24 * hourMs
    Object.assign(row ?? {}, {
      period: periodBefore,
      startedAt: past,
      endedAt: past + 1,
      outcome: 'complete',
      cameToEnd: true,
      listings: 9,
      filledFields: 9,
    })
  }

  private fate(push: number, statement: string): Fate {
    if (this.aimed.length > 0) this.noteStatement(push, statement)
    if (this.world.now < this.awayUntil) return 'away'
    return this.world.now < this.losing.untilMs && this.random.chance(this.losing.share) ? 'lost' : 'answered'
  }

  private noteStatement(push: number, statement: string): void {
    const which = `${push} ${statement}`
    const nth = (this.sent.get(which) ?? 0) + 1
    this.sent.set(which, nth)
    for (const { event, moment } of this.aimed) {
      if (moment.push !== push || moment.statement !== statement || moment.nth !== nth) continue
      if (moment.lagMs === 0) this.happen(event, () => undefined)
      else this.world.after(moment.lagMs, () => this.happen(event, () => undefined))
    }
  }

  run(): Outcome {
    const { world, scenario, model, receiver, processes } = this
    for (const push of scenario.pushes) world.at(push.atMs, () => this.begin(push))
    for (const event of scenario.events) this.schedule(event)
    const pushes = scenario.pushes.length
    const isOver = () => processes.length >= pushes && processes.every((process) => process.isOver)
    let isEndless = !this.play(isOver)
    let before: Outcome['before']
    if (!isEndless) {
      const { claims, receivers, deliveries } = model.state
      before = {
        claims: new Map(claims),
        receivers: structuredClone(receivers),
        deliveries: [...deliveries.values()].map((row) => ({ ...row })),
      }
      // what is still to happen to the rest of the scenario happens before the calm
      this.play(() => false, world.now + 61_000)
      // where all is done a calm push has little to show
      const isCalm = !this.isAllDone || this.random.chance(0.25)
      if (isCalm) this.calm()
      if (isCalm && this.random.chance(0.25)) {
        this.begin({ what: 'resume', atMs: 0 })
        isEndless = !this.play(() => processes.every((process) => process.isOver))
      }
      if (isCalm && !isEndless) {
        this.begin({
          what: 'all',
          force: false,
          atMs: 0,
          accept: scenario.users.some(({ leadsBefore }) => leadsBefore !== undefined),
        })
        isEndless = !this.play(() => processes.every((process) => process.isOver))
      }
    }
    return {
      scenario,
      processes,
      pushes,
      receiver,
      model,
      before,
      lost: this.lost,
      isEndless,
      trace: this.trace,
      happenings: world.happenings,
      happened: this.happened,
    }
  }

  private get isAllDone(): boolean {
    const { users, claims, deliveries, receivers } = this.model.state
    for (const { email, subscribed, places, owedAt } of users.values())
      if (subscribed && places.length > 0 && (owedAt !== null || !claims.has(claimKey(`weekly:${period}`, email))))
        return false
    for (const { status } of deliveries.values()) if (status === 'pending') return false
    return receivers.get(receiverUrl)?.troubleSince == null
  }

  private play(isOver: () => boolean, untilMs = this.world.now + virtualMsMax): boolean {
    return this.world.run(isOver, untilMs, turnsMax)
  }

  /** From now on all is well, and what was held back may be tried again. */
  private calm(): void {
    const { world, model, receiver } = this
    this.isCalm = true
    receiver.manners = [{ atMs: 0, manner: { is: 'well', latencyMs: 5 } }]
    this.awayUntil = 0
    this.losing = { untilMs: 0, share: 0 }
    const row = model.state.receivers.get(receiverUrl)
    const waitMs = row?.trouble == null ? 61_000 : row.trouble.is === 'refuses' ? 25 * hourMs : hourMs + 1_000
    this.play(() => false, world.now + waitMs)
    world.now += waitMs
  }

  private begin(push: Push): void {
    const { settings, processes } = this
    const request = this.toRequest(push)
    this.tell(() => `push ${processes.length}: ${JSON.stringify(request)}`)
    processes.push(
      new SimulatedProcess(processes.length, this.around, { request, accept: push.accept ?? false, settings }),
    )
  }

  private toRequest(push: Push): PushRequest {
    if (push.what !== 'user') {
      const { atMs: _, accept: __, ...request } = push
      return request as PushRequest
    }
    const row = this.model.state.users.get(push.user + 1)
    const user = { id: push.user + 1, email: emailOf(push.user) }
    const owed = row !== undefined && this.model.is.isOwedSubscription(row)
    return { what: 'user', user, owed, owedOnly: push.owedOnly }
  }

  private schedule(event: Event): void {
    const { world } = this
    if (event.aimed) this.aimed.push({ event, moment: event.aimed })
    else if (event.is === 'away' && event.server && event.lostMs > 0) {
      let snapshot: LedgerState | undefined
      world.at(Math.max(0, event.atMs - event.lostMs), () => {
        snapshot = this.model.snapshot()
      })
      world.at(event.atMs, () => this.happen(event, () => snapshot))
    } else world.at(event.atMs, () => this.happen(event, () => undefined))
  }

  private happen(event: Event, snapshotOf: () => LedgerState | undefined): void {
    if (this.isCalm) return
    const { model, world, processes } = this
    const { state } = model
    this.tell(() => JSON.stringify(event))
    this.happened.push({ event, atMs: world.now })
    switch (event.is) {
      case 'stop':
        processes[event.push]?.stop()
        return
      case 'kill':
        processes[event.push]?.kill()
        return
      case 'freeze':
        processes[event.push]?.freeze(event.forMs)
        return
      case 'away':
        this.awayUntil = Math.max(this.awayUntil, world.now + event.forMs)
        if (event.server) this.failOver(snapshotOf())
        return
      case 'lose':
        this.losing = { untilMs: world.now + event.forMs, share: event.share }
        return
      case 'erase':
        for (const listing of event.listings) {
          const { versionId } = state.listings.find((it) => it.versionId === listing + 1) ?? {}
          if (versionId !== undefined) model.erase(versionId)
        }
        return
      case 'subscribe':
        model.subscribe(event.user + 1)
        return
      case 'unsubscribe':
        model.unsubscribe(event.user + 1)
        return
      case 'remove':
        model.removeUser(event.user + 1)
        return
      case 'import': {
        const { user, places } = event
        if (state.users.has(user + 1)) model.setPlaces(user + 1, places)
        else model.addUser(toUser(user, { places, subscribed: true }))
        return
      }
      case 'listing':
        model.addListing(event.place, JSON.stringify({ postalCode: event.place, n: state.lastVersion }))
    }
  }

  private failOver(snapshot: LedgerState | undefined): void {
    const { model } = this
    const server = `server ${++this.servers}`
    if (snapshot === undefined) {
      model.failOver(server)
      return
    }
    this.lost = true
    // a sequence is ahead of what was confirmed
    const ahead = 32
    model.failOver(server, {
      ...snapshot,
      lastId: snapshot.lastId + ahead,
      lastVersion: snapshot.lastVersion + ahead,
      erasures: snapshot.erasures + ahead,
    })
  }
}
