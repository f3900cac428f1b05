/** The ledger of a run on the model: each statement goes a way that the simulation decides, to it and back. */
import { countBodyBytes } from '../../src/deliveries/body.ts'
import type { LeadInBody, LeadWithJson } from '../../src/leads/lead-store.ts'
import type { UserPlan } from '../../src/push/database/planner.ts'
import type {
  AttemptStore,
  Ledger,
  PlanSource,
  ReceiverNews,
  ReceiverStore,
  RunStore,
  UserStore,
} from '../../src/push/ledger.ts'
import type { UserToServe } from '../../src/push/whom/pass.ts'
import { markQueries, serialiseQuery } from '../../src/users/query.ts'
import type { LedgerModel, Listed } from './ledger-model.ts'
import { remember } from './remember.ts'

export interface Way {
  /**
   * Carries a statement out, sooner or later: its answer comes back, or an absence is thrown, before or after it was carried out.
   * `what` names it.
   */
  call<T>(what: string, statement: () => T): Promise<T>
  /** As `rideOut` of the database: again while the database is away. */
  rideOut: Ledger['rideOut']
}

const serialise = remember(
  (place: string) => place,
  (value) => serialiseQuery({ type: 'zipcode', value, radius: 0 }),
)
const markPlaces = remember((queries: readonly string[]) => queries.join(), markQueries)
const serialisePlaces = (places: readonly string[]) => places.map(serialise)

export const markOf = (places: readonly string[]) => markPlaces(serialisePlaces(places))

/** The leads of one delivery: so few that pushes have several parts. */
const leadsPerPart = 2

export function modelLedger(model: LedgerModel, way: Way): Ledger {
  const once = <T>(what: string, statement: () => T) => way.call(what, statement)
  const surely = <T>(what: string, statement: () => T) => way.rideOut(() => way.call(what, statement))
  const runs: RunStore = {
    start: (run) => surely('start', () => model.startRun(run)),
    end: (...of) => surely('end', () => model.endRun(...of)),
    findStatements: (runId) => surely('findStatements', () => model.findStatements(runId)),
    recordLoss: (...of) => surely('recordLoss', () => model.recordLoss(...of)),
    findInterrupted: (period) => surely('findInterrupted', () => model.findInterrupted(period)),
    closeInterrupted: (...of) => surely('closeInterrupted', () => model.closeInterrupted(...of)),
    findWeek: (period) => surely('findWeek', () => model.findWeek(period)),
    recordVerdict: (...of) => surely('recordVerdict', () => model.recordVerdict(...of)),
    wasHeldBefore: (...of) => surely('wasHeldBefore', () => model.wasHeldBefore(...of)),
    findOthersAtWork: (ids) => surely('findOthersAtWork', () => model.findOthersAtWork(ids)),
  }
  const users: UserStore = {
    countOfPass: (...of) => surely('countOfPass', () => model.countOfPass(...of)),
    countElsewhere: (...of) => surely('countElsewhere', () => model.countElsewhere(...of)),
    countUnreached: (of) => surely('countUnreached', () => model.countUnreached(of)),
    async *findWithoutQueries(scope) {
      yield* await surely('findWithoutQueries', () => model.findWithoutQueries(scope))
    },
    async *findOwedSubscription(untilNone) {
      for (let last = { since: Number.NEGATIVE_INFINITY, id: 0 }; ; ) {
        const after = last
        const found = await surely('findOwedSubscription', () => model.findOwedSubscription(after))
        if (found.length === 0) return
        yield found.map(({ id, email }) => ({ id, email }))
        if (!untilNone) return
        last = found.at(-1) ?? last
      }
    },
    findRemoved: (some) => surely('findRemoved', () => model.findRemoved(some)),
    draw: (...of) => surely('draw', () => model.draw(...of)),
    takeRange: (range) => once('takeRange', () => model.takeRange(range)),
    releaseRanges: (...of) => once('releaseRanges', () => model.releaseRanges(...of)),
  }
  const attempts: AttemptStore = {
    isAnythingAbandoned: () => surely('isAnythingAbandoned', () => model.isAnythingAbandoned()),
    endAbandoned: (of) => once('endAbandoned', () => model.endAbandoned(of)),
    takeBack: (...of) => once('takeBack', () => model.takeBack(...of)),
    async *releaseDeliveries(...of) {
      yield* await surely('releaseDeliveries', () => model.releaseDeliveries(...of))
    },
    findNextDue: (look) => once('findNextDue', () => model.findNextDue(look)),
    endFarPauses: () => surely('endFarPauses', () => model.endFarPauses()),
    recordPushes: (...of) => once('recordPushes', () => model.recordPushes(...of)),
    recordOutcomes: (...of) => once('recordOutcomes', () => model.recordOutcomes(...of)),
    recordDue: (look) => once('recordDue', () => model.recordDue(look)),
    findUnheard: (...of) => once('findUnheard', () => model.findUnheard(...of)),
  }
  const nameOf = ({ says }: ReceiverNews) =>
    says === 'try' ? 'takeTry' : says === 'taken back' ? 'giveTryBack' : 'tellReceiver'
  const receiver = (url: string, runId: number): ReceiverStore => ({
    begin: (isOnlyOne) => surely('beginReceiver', () => model.beginReceiver(url, runId, isOnlyOne)),
    tell: (news) => surely(nameOf(news), () => model.tellReceiver(url, runId, news)),
    read: () => once('readReceiver', () => model.readReceiver(url, runId)),
  })
  return {
    runs,
    users,
    attempts,
    receiver,
    rideOut: way.rideOut,
    planner: (_live, findServer) => new ModelPlans(model, surely, findServer),
    registerWorker: (leaseMs) => surely('registerWorker', () => model.registerWorker(leaseMs)),
    renewLease: (...of) => once('renewLease', () => model.renewLease(...of)),
    isWorkerThere: (id) => surely('isWorkerThere', () => model.state.workers.has(id)),
    forgetDeadWorkers: () => surely('forgetDeadWorkers', () => model.forgetDeadWorkers()),
    takeRunAlong: (...of) => once('takeRunAlong', () => model.takeRunAlong(...of)),
    endLeases: (ids) => once('endLeases', () => model.endLeases(ids)),
    findServer: () => surely('findServer', () => model.state.server),
  }
}

type Surely = <T>(what: string, statement: () => T) => Promise<T>

/** What was read under one count of erasures, from one server. */
interface Reading {
  server: string
  erasures: Promise<number> | undefined
  /** The versions of each place that was asked for. */
  byPlace: Map<string, readonly Listed[]>
}

/** A user's leads are the listings of their places, the newest first, each once, in parts of a few. */
class ModelPlans implements PlanSource {
  private readonly model: LedgerModel
  private readonly surely: Surely
  private readonly findServer: () => string
  private reading: Reading

  constructor(model: LedgerModel, surely: Surely, findServer: () => string) {
    this.model = model
    this.surely = surely
    this.findServer = findServer
    this.reading = this.newReading()
  }

  private newReading(): Reading {
    return { server: this.findServer(), erasures: undefined, byPlace: new Map() }
  }

  forget(): void {
    this.reading = this.newReading()
  }

  async forgetErased(erasures: number): Promise<void> {
    if ((await this.reading.erasures) !== erasures) this.forget()
  }

  readJson(contents: readonly LeadInBody[]): Promise<LeadWithJson[] | undefined> {
    return this.surely('readJson', () => {
      const found = contents.flatMap((lead) => {
        const json = this.model.state.versions.get(lead.versionId)
        return json === undefined ? [] : [{ place: '', ...lead, json: Buffer.from(json) }]
      })
      return found.length === contents.length ? found : undefined
    })
  }

  async *planGroups(
    users: readonly UserToServe[],
    compared: readonly string[],
  ): AsyncGenerator<AsyncIterable<UserPlan>> {
    const { model, surely } = this
    const places = await surely('findQueries', () => users.map(({ id }) => model.state.users.get(id)?.places ?? []))
    if (this.reading.server !== this.findServer()) this.forget()
    const { reading } = this
    const queries = places.map(serialisePlaces)
    const marks = queries.map(markPlaces)
    const before = await surely('findLeadsBefore', () =>
      users.map((user, at) => model.findLeadsBefore(user, marks[at] ?? 0, compared)),
    )
    // counted before the first read: an older count with newer leads is safe, the reverse is not
    reading.erasures ??= surely('findErasures', () => model.state.erasures)
    const erasures = await reading.erasures
    const asked = [...new Set(places.flat())].filter((place) => !reading.byPlace.has(place))
    const found = await surely('match', () => model.findListed(asked))
    for (const place of asked)
      reading.byPlace.set(
        place,
        found.filter((it) => it.place === place),
      )
    const plans = users.map((user, at) => {
      const own = { json: queries[at] ?? [], places: places[at] ?? [] }
      return this.planOne(reading, erasures, user, own, marks[at] ?? 0, before[at])
    })
    yield (async function* () {
      yield* plans
    })()
  }

  private planOne(
    { byPlace, server }: Reading,
    erasures: number,
    user: UserToServe,
    own: { json: readonly string[]; places: readonly string[] },
    queriesMark: number,
    leadsBefore: number | undefined,
  ): UserPlan {
    const matched = own.places.map((place) => byPlace.get(place) ?? [])
    const leads = new Map(matched.flat().map((lead) => [lead.versionId, lead]))
    const newest = [...leads.values()].sort((a, b) => b.versionId - a.versionId)
    const parts = own.places.length === 0 ? 0 : Math.max(1, Math.ceil(newest.length / leadsPerPart))
    const queryList = own.json.join(',')
    return {
      user,
      matches: matched.flat().length,
      sameHouse: 0,
      tooLarge: [],
      tooSlow: undefined,
      erasures,
      server,
      queriesMark,
      leadsBefore,
      queries: own.json.map((json, at) => {
        const versionIds = (matched[at] ?? []).map(({ versionId }) => versionId)
        return { json, versionIds, leftOut: [], indexes: [] }
      }),
      deliveries: Array.from({ length: parts }, (_, at) => {
        const contents = newest.slice(at * leadsPerPart, (at + 1) * leadsPerPart)
        const leadBytes = contents.reduce((sum, { json }) => sum + json.length, 0)
        return {
          part: at + 1,
          parts,
          queries: own.json.length,
          leads: contents.length,
          queryList,
          contents,
          bytes: countBodyBytes(1, Buffer.byteLength(queryList), contents.length, leadBytes),
        }
      }),
    }
  }
}
