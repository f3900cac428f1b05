/** Weeks of history, made by SQL in bulk: listings, users, imports, weekly runs and deliveries of real variety, the same each time. */
import { sql } from 'kysely'
import type { Database } from '../../src/db/open.ts'

export interface HistorySize {
  leads: number
  users: number
  /** How many weeks, the current one included. */
  weeks: number
}

/** SQL: a number from 0 to 1, always the same for the same text. */
const chance = (text: ReturnType<typeof sql>) => sql`(hashtext(${text}) & 65535) / 65536.0`

async function fillLeads(db: Database, leads: number): Promise<void> {
  await sql`
    insert into imports (file, started_at, base_version_id, records, inserted, updated, rejected)
    select 'listings.csv', date_trunc('day', now()) - back * interval '1 day' + interval '5 minutes', 0, 1000,
      case when back % 7 = 3 then 0 else ${leads} / 100 + ${leads} * ((back * 37) % 50) / 2000 end, ${leads} * ((back * 53) % 70) / 3000, back % 5
    from generate_series(0, 50) as back
  `.execute(db)
  // a few cities have most of the listings
  await sql`
    with codes as materialized (
      select code, (row_number() over (order by hashtext(code)))::integer - 1 as at from postal_codes where country = 'US' or code like 'M%'
    ),
    wanted as materialized (
      select i, floor((select count(*) from codes) * power(${chance(sql`'place' || i`)}, 3))::integer as at
      from generate_series(1, ${leads}::integer) as i
    )
    insert into leads (href_sha256, postal_key, version_id, json_sha256, first_import_id, search)
    select sha256(('lead' || i)::bytea), c.code, i, sha256('{}'::bytea), 1, ''
    from wanted join codes c using (at)
  `.execute(db)
  await sql`insert into lead_seen (lead_id, seen_at, filled) select id, now() - interval '1 day', 9 from leads`.execute(
    db,
  )
}

async function fillUsers(db: Database, users: number): Promise<void> {
  await sql`
    with codes as materialized (
      select code, (row_number() over (order by hashtext('u' || code)))::integer - 1 as at from postal_codes where country = 'US'
    ),
    asked as materialized (
      select i, floor((select count(*) from codes) * power(${chance(sql`'user' || i`)}, 2))::integer as at,
        (array[0, 5, 10, 25, 50])[1 + i % 5] as radius
      from generate_series(1, ${users}::integer) as i
    ),
    wanted as materialized (
      select i, 'owner-' || i || '@example.com' as email, code, radius, sha256((code || ' ' || radius)::bytea) as meaning
      from asked join codes using (at)
    ),
    made_searches as (
      insert into searches (meaning_sha256, kind, places, resolver)
      select distinct on (meaning) meaning, 'place', array[code], 1 from wanted returning id, meaning_sha256
    ),
    made_users as (
      insert into users (email, receiver_key, subscribed, home_key)
      select email, 'key', i % 20 <> 0, code from wanted returning id, email
    )
    insert into queries (user_id, position, type, value, radius, hash, json, search_id)
    select u.id, 0, 'zipcode', w.code, w.radius, w.code || w.radius, '{}', s.id
    from wanted w join made_users u using (email) join made_searches s on s.meaning_sha256 = w.meaning
    where w.i % 50 <> 7
  `.execute(db)
}

async function fillDeliveries(db: Database, { users, weeks }: HistorySize): Promise<void> {
  // on the Monday of each week, but an hour ago in this week
  await sql`
    insert into runs (id, command, period, time_zone, worker_id, resumable, started_at, ended_at, outcome, came_to_end, listings,
      filled_fields, held_users)
    select row_number() over (order by back desc), 'all', to_char(monday, 'IYYY-"W"IW'), 'UTC', 0, true, least(monday + interval '6 hours', now() - interval '1 hour'),
      least(monday + interval '6 hours', now() - interval '1 hour') + interval '4 minutes',
      case when back % 4 = 2 then 'complete' else 'failures' end, true, 20000 - 137 * back, 180000, case when back % 6 = 4 then ${users} / 40 else 0 end
    from (select back, date_trunc('week', now()) - back * interval '1 week' as monday from generate_series(${weeks - 1}::integer, 0, -1) as back) w
    order by back desc
  `.execute(db)
  await sql`
    insert into deliveries (idempotency_key, run_id, user_id, period, kind, part, parts, queries, leads, bytes, query_list, recipe,
      created_at, status, attempts, under_way, first_at, first_ms, first_status, first_error, first_maybe_arrived, second_at, second_ms,
      second_status, second_error, second_maybe_arrived)
    select md5(r.id || ' ' || u.id) , r.id, u.id, r.period, 'weekly', 1, 1, 1, leads, 300 + leads * 830, '[]',
      decode(repeat('00', leads * 2), 'hex'), at, status, attempts, false, at, ms,
      case when ok1 then 200 when status = 'failed' or retried then code end,
      case when ok1 then null when status = 'unknown' then 'an answer did not come in time (LEADPUSH_TIMEOUT is 30 s)' else why end,
      status = 'unknown', case when attempts = 2 then at + interval '7 seconds' end, case when attempts = 2 then ms * 2 end,
      case when retried then 200 when status = 'failed' then code end,
      case when retried then null when status = 'failed' then why when status = 'unknown' then 'an answer did not come in time (LEADPUSH_TIMEOUT is 30 s)' end,
      status = 'unknown'
    from (
      select *, status = 'delivered' and dice >= 0.04 as ok1, status = 'delivered' and dice < 0.04 as retried,
        case when status = 'delivered' and dice >= 0.04 then 1 else 2 end as attempts,
        case when status = 'unknown' then 30000 else greatest(8, exp(4.2 + 1.1 * (dice2 + dice3 - 1) + 2.5 * greatest(0, dice2 - 0.93) * 10))::integer end as ms,
        case when dice3 < 0.6 then 503 when dice3 < 0.85 then 401 else 422 end as code,
        case when dice3 < 0.6 then 'HTTP 503: the receiver is in trouble'
          when dice3 < 0.85 then 'HTTP 401: the receiver does not take the user''s receiver key: bring it up to date with leadpush users import'
          else 'HTTP 422: the receiver refused the body, or has this key with another body' end as why
      from (
        select r.id as run_id, u.id as user_id, ${chance(sql`'a' || r.id || ' ' || u.id`)} as dice,
          ${chance(sql`'b' || r.id || ' ' || u.id`)} as dice2, ${chance(sql`'c' || u.id`)} as dice3,
          case when ${chance(sql`'d' || r.id || ' ' || u.id`)} < 0.012 * (1 + r.id % 4) then 'failed'
            when ${chance(sql`'e' || r.id || ' ' || u.id`)} < 0.004 then 'unknown' else 'delivered' end as status,
          (60 + 340 * ${chance(sql`'f' || u.id`)})::integer as leads,
          r.started_at + interval '2 seconds' + (u.id::double precision / ${users}) * interval '3.5 minutes' as at
        from runs r cross join users u where u.subscribed and u.id <= ${users}::bigint * (r.id + 20) / (${weeks} + 20)
          and exists (select from queries q where q.user_id = u.id)
      ) diced
    ) d join runs r on r.id = d.run_id join users u on u.id = d.user_id
  `.execute(db)
  await sql`
    insert into claims (scope, email, claimed_at, leads)
    select 'weekly:' || d.period, u.email, d.created_at, d.leads from deliveries d join users u on u.id = d.user_id
    where d.run_id = (select max(id) from runs)
  `.execute(db)
}

async function fillHooks(db: Database): Promise<void> {
  await sql`
    with made as (
      insert into integrations (user_id, api_key_sha256, signing_secret)
      select id, sha256(('key' || id)::bytea), 'whsec_AAAA' from users where id <= 4 returning id
    )
    insert into hooks (integration_id, url, url_sha256, looked_import_id, last_at, last_status, last_error, abandoned, abandoned_at)
    select id, 'https://hooks.example.com/catch/' || id, sha256(('hook' || id)::bytea), 1, now() - interval '2 hours', 500,
      'HTTP 500', id, case when id % 2 = 1 then now() - interval '1 day' end from made
  `.execute(db)
}

/** Fills a database that has only its schema. */
export async function fillHistory(db: Database, size: HistorySize): Promise<void> {
  await fillLeads(db, size.leads)
  await fillUsers(db, size.users)
  await fillDeliveries(db, size)
  await fillHooks(db)
  await sql`analyze`.execute(db)
}
