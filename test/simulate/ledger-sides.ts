/**
 * The two sides of a comparison: the model of the ledger, and PostgreSQL with a clock, a name and ids that are given to it. Each has the
 * ledger of a run, and what others do beside a run.
 */
import { sql } from 'kysely'
import type { Database } from '../../src/db/open.ts'
import { endDeliveries, findPendingWith } from '../../src/deliveries/erased-deliveries.ts'
import { raiseErasureCount } from '../../src/deliveries/erasure-count.ts'
import { makeAnew } from '../../src/deliveries/made-anew.ts'
import { decodeRecipe } from '../../src/deliveries/recipe.ts'
import { databaseLedger } from '../../src/push/database/database-ledger.ts'
import { hashReceiver } from '../../src/push/database/receivers.ts'
import { findLeadsBefore } from '../../src/push/database/users-to-serve.ts'
import type { Ledger } from '../../src/push/ledger.ts'
import type { UserToServe } from '../../src/push/whom/pass.ts'
import { recordSubscription, recordUnsubscription, removeUser } from '../../src/users/users.ts'
import { LedgerModel } from './ledger-model.ts'
import type { UserRow } from './ledger-state.ts'
import { modelLedger } from './model-ledger.ts'

export type NewUser = Pick<UserRow, 'id' | 'email' | 'receiverKey' | 'homeKey' | 'subscribed' | 'places'>

export interface Side {
  ledger: Ledger
  setTime(ms: number): Promise<void>
  addUser(user: NewUser): Promise<void>
  removeUser(id: number): Promise<void>
  setPlaces(id: number, places: readonly string[]): Promise<void>
  subscribe(id: number): Promise<unknown>
  unsubscribe(id: number): Promise<void>
  addListing(versionId: number, json: string): Promise<void>
  erase(versionId: number): Promise<unknown>
  failOver(server: string): Promise<void>
  findLeadsBefore(user: UserToServe, mark: number, compared: readonly string[]): Promise<number | undefined>
  /** All rows, in the same words on both sides. */
  findRows(): Promise<Record<string, unknown[]>>
}

export class ModelSide implements Side {
  readonly model: LedgerModel
  readonly ledger: Ledger
  private now = 0

  constructor(Model = LedgerModel) {
    this.model = new Model(() => this.now)
    this.ledger = modelLedger(this.model, {
      call: async (_what, statement) => statement(),
      rideOut: (work) => work(false),
    })
  }

  async setTime(ms: number) {
    this.now = ms
  }
  async addUser(user: NewUser) {
    this.model.addUser(user)
  }
  async removeUser(id: number) {
    this.model.removeUser(id)
  }
  async setPlaces(id: number, places: readonly string[]) {
    this.model.setPlaces(id, places)
  }
  async subscribe(id: number) {
    return this.model.subscribe(id)
  }
  async unsubscribe(id: number) {
    this.model.unsubscribe(id)
  }
  async addListing(versionId: number, json: string) {
    this.model.addListing('', json, versionId)
  }
  async erase(versionId: number) {
    return this.model.erase(versionId)
  }
  async failOver(server: string) {
    this.model.failOver(server)
  }
  async findLeadsBefore(user: UserToServe, mark: number, compared: readonly string[]) {
    return this.model.findLeadsBefore(user, mark, compared)
  }

  async findRows() {
    const { state } = this.model
    return {
      users: [...state.users.values()].map(({ id, subscribed, owedAt, begunAt }) => ({
        id,
        subscribed,
        owedAt,
        begunAt,
      })),
      workers: [...state.workers.values()],
      runs: [...state.runs.values()],
      claims: [...state.claims].map(([key, claim]) => ({ key, ...claim })),
      deliveries: [...state.deliveries.values()],
      forcedScopes: [...state.forcedScopes].map(([period, scope]) => ({ period, ...scope })),
      ranges: state.ranges.map(({ workerId, scope, first, last }) => {
        return { workerId, scope, first: [first.homeKey, first.id], last: [last.homeKey, last.id] }
      }),
      erased: state.erased,
      receivers: [...state.receivers].map(([url, row]) => ({ url, ...row })),
    }
  }
}

const tables = [
  'deliveries',
  'claims',
  'user_ranges',
  'erased_deliveries',
  'workers',
  'runs',
  'receivers',
  'users',
  'lead_versions',
]
const ms = (time: string) => sql.raw(`(extract(epoch from ${time}) * 1000)::double precision`)

export class DatabaseSide implements Side {
  readonly ledger: Ledger
  private readonly db: Database
  private readonly urls: readonly string[]

  /** `db`: with a search path as `prepare` wants it; `urls`: of the receivers. */
  constructor(db: Database, urls: readonly string[]) {
    this.db = db
    this.urls = urls
    this.ledger = databaseLedger(db)
  }

  /**
   * Gives the database another clock, other ids and another name: all that is unqualified finds them before its own, where the search
   * path is that of the statement that this returns.
   */
  static async prepare(db: Database): Promise<string> {
    await sql`create schema given`.execute(db)
    await sql`create table given.state (now timestamptz not null, server text not null)`.execute(db)
    await sql`insert into given.state values ('2026-01-01', 'first')`.execute(db)
    await sql`create sequence given.ids`.execute(db)
    for (const name of ['now', 'clock_timestamp'])
      await sql`create function ${sql.id('given', name)}() returns timestamptz language sql stable as 'select now from given.state'`.execute(
        db,
      )
    await sql`create or replace function this_server() returns text language sql stable as 'select server from given.state'`.execute(
      db,
    )
    await sql`create or replace function random_id() returns bigint language sql volatile as $$ select nextval('given.ids') $$`.execute(
      db,
    )
    const { rows } = await sql<{ column: string; table: string }>`
      select table_name as "table", column_name as "column" from information_schema.columns
      where table_schema = 'public' and column_default = 'now()'
    `.execute(db)
    for (const { table, column } of rows)
      await sql`alter table ${sql.id(table)} alter ${sql.id(column)} set default given.now()`.execute(db)
    await sql`insert into searches (meaning_sha256, kind, places, words, resolver) values (sha256('x'), 'place', '{1}', null, 1)`.execute(
      db,
    )
    const { rows: names } = await sql<{ name: string }>`select current_database() as name`.execute(db)
    return `alter database ${names[0]?.name} set search_path = given, public, pg_catalog`
  }

  /** Empties the ledger. */
  async reset(): Promise<void> {
    const deletes = tables.map((table) => `delete from ${table};`).join('')
    await sql
      .raw(
        `${deletes} select setval('given.ids', 1, false), setval('erasure_count', 1); update given.state set server = 'first'`,
      )
      .execute(this.db)
  }

  async setTime(ms: number) {
    await sql`update given.state set now = to_timestamp(${ms / 1_000}::double precision)`.execute(this.db)
  }

  async addUser({ id, email, receiverKey, homeKey, subscribed, places }: NewUser) {
    await sql`
      insert into users (id, email, receiver_key, home_key, subscribed) overriding system value
      values (${id}, ${email}, ${receiverKey}, ${homeKey}, ${subscribed})
    `.execute(this.db)
    await this.setPlaces(id, places)
  }

  async removeUser(id: number) {
    await removeUser(this.db, id)
  }

  async setPlaces(id: number, places: readonly string[]) {
    await sql`delete from queries where user_id = ${id}`.execute(this.db)
    await sql`
      insert into queries (user_id, position, type, value, radius, hash, json, search_id)
      select u.id, at - 1, 'zipcode', place, 0, place || '0', '{}', (select min(id) from searches)
      from users u, unnest(${places}::text[]) with ordinality as p (place, at) where u.id = ${id}
    `.execute(this.db)
  }

  async subscribe(id: number) {
    return await recordSubscription(this.db, id)
  }

  async unsubscribe(id: number) {
    await recordUnsubscription(this.db, id)
  }

  async addListing(versionId: number, json: string) {
    await sql`insert into lead_versions (id, lead_id, json) values (${versionId}, ${versionId}, ${json})`.execute(
      this.db,
    )
  }

  /** As an erasure does, without the listing's own tables. */
  async erase(versionId: number) {
    return await this.db.transaction().execute(async (transaction) => {
      const { numAffectedRows } = await sql`delete from lead_versions where id = ${versionId}`.execute(transaction)
      if (numAffectedRows === 0n) return { ended: 0, underWay: [] }
      await raiseErasureCount(transaction)
      const keys = await findPendingWith(transaction, (id) => id === versionId)
      await makeAnew(transaction, keys, ({ attempts }) => attempts === 0)
      return await endDeliveries(transaction, keys)
    })
  }

  async failOver(server: string) {
    await sql`update given.state set server = ${server}`.execute(this.db)
  }

  async findLeadsBefore(user: UserToServe, mark: number, compared: readonly string[]) {
    return (await findLeadsBefore(this.db, [user], new Map([[user.id, mark]]), compared)).get(user.id)
  }

  async findRows() {
    const find = async (columns: ReturnType<typeof sql.raw>) =>
      (await sql<Record<string, unknown>>`select ${columns}`.execute(this.db)).rows
    const cell = (nth: string) =>
      `json_build_object('at', (extract(epoch from ${nth}_at) * 1000)::double precision, 'status', ${nth}_status, 'error', ${nth}_error, 'maybeArrived', ${nth}_maybe_arrived) as ${nth}`
    const deliveries = await find(
      sql`idempotency_key as key, run_id as "runId", user_id as "userId", kind, period, part, parts, queries, leads, bytes,
        query_list as "queryList", recipe, ${ms('created_at')} as "createdAt", status, attempts, under_way as "underWay",
        worker_id as "workerId", gzip, ${ms('due_at')} as "dueAt", end_reason as "endReason", doubtful, ${sql.raw(cell('first'))},
        ${sql.raw(cell('second'))} from deliveries`,
    )
    const urlOf = new Map(this.urls.map((url) => [hashReceiver(url).toString('hex'), url]))
    const receivers = await find(
      sql`encode(url_sha256, 'hex') as url, ${ms('trouble_since')} as "troubleSince",  case when trouble is not null then json_strip_nulls(json_build_object('is', trouble, 'status', refused_status)) end as trouble, tries,
        ${ms('next_at')} as "nextAt", ${ms('second_at')} as "secondAt", ${ms('well_at')} as "wellAt", well_by as "wellBy", ${ms('paused_until')} as "pausedUntil", rate,
        ${ms('rate_at')} as "rateAt", takes_gzip as "takesGzip", ${ms('refused_gzip_at')} as "refusedGzipAt" from receivers`,
    )
    return {
      users: await find(
        sql`id, subscribed, ${ms('owed_at')} as "owedAt", ${ms('begun_at')} as "begunAt" from users
          left join subscription_pushes on user_id = id`,
      ),
      workers: await find(
        sql`id, ${ms('lease_until')} as "leaseUntil", ${ms('renewed_at')} as "renewedAt" from workers`,
      ),
      runs: await find(
        sql`id, command, period, time_zone as "timeZone", worker_id as "workerId", resumable, ${ms('started_at')} as "startedAt",
          ${ms('ended_at')} as "endedAt", outcome, statements, came_to_end as "cameToEnd", listings, filled_fields as "filledFields",
          held, accepted, held_users as "heldUsers", held_by_answers as "heldByAnswers" from runs`,
      ),
      claims: await find(
        sql`scope || ' ' || email as key, ${ms('claimed_at')} as "claimedAt", leads, queries_mark as "queriesMark" from claims`,
      ),
      deliveries: deliveries.map(({ recipe, ...row }) => ({ ...row, versionIds: decodeRecipe(recipe as Buffer) })),
      forcedScopes: await find(sql`period, run_id as "runId", is_over as "isOver" from forced_scopes`),
      ranges: await find(
        sql`worker_id as "workerId", scope, json_build_array(first_home_key, first_user_id) as first,
          json_build_array(last_home_key, last_user_id) as last from user_ranges`,
      ),
      erased: await find(sql`worker_id as "workerId", idempotency_key as key from erased_deliveries`),
      receivers: receivers.map((row) => ({ ...row, url: urlOf.get(row.url as string) })),
    }
  }
}
