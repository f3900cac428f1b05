-- The ledger. What is sent is written here first; what came of it, after. Nothing in it needs a session or a clock other
-- than the database's.

-- A row a process that pushes. While its lease runs, what it has is its own; afterwards anyone may take it.
create table workers (
  id bigint generated always as identity primary key,
  host text not null,
  process_id integer not null,
  started_at timestamptz not null default now(),
  lease_until timestamptz not null,
  renewed_at timestamptz not null default now()
);

-- When a worker's lease is over: `w.lease_end`. One that was renewed in the future is over since ever, as the clock was wrong then
-- (contract 4.13). That is told by the clock as it is: what was renewed since a statement began lies in that statement's future.
-- Another server that took over may be behind by a little.
create function lease_end(w workers) returns timestamptz language plpgsql stable parallel safe as $$
begin
  return case when w.renewed_at > clock_timestamp() + interval '1 second' then '-infinity' else w.lease_until end;
end $$;

create table runs (
  id bigint generated always as identity primary key,
  command text not null check (command in ('all', 'force', 'resume', 'failed', 'user')),
  period text not null check (period ~ '^[0-9]{4}-W[0-9]{2}$'),
  time_zone text not null,
  worker_id bigint not null,
  -- false with --limit: over when it ends, however it ends
  resumable boolean not null,
  started_at timestamptz not null default now(),
  ended_at timestamptz,
  outcome text not null default 'running' check (outcome in ('running', 'complete', 'failures', 'stopped', 'interrupted')),
  -- whether it came to every user that it set out to serve, by itself or by a later run that went on with it
  came_to_end boolean not null default false,
  -- whether `prune` was asked to delete what is as old: who was served by it may be forgotten
  pruned boolean not null default false,
  -- what was imported in its week, when it began: distinct listings, and the fields that their last records filled
  listings bigint,
  filled_fields bigint,
  -- why the guard held back all of it
  held text,
  -- begun with --accept
  accepted boolean not null default false,
  -- users whom the guard held back, and whom no later run of the period served
  held_users integer not null default 0
);

create index runs_by_start on runs (started_at);
create index runs_open on runs (period) where not came_to_end or held_users > 0;
-- the few that are under way, and those that a monitor asks for, are found among years of them
create index runs_under_way on runs (worker_id) where outcome = 'running';
create index runs_complete on runs (ended_at) where came_to_end and command in ('all', 'force');

-- A stretch of the users, in their order, that a process is working on: others look elsewhere. It is taken by one statement, which
-- tells two processes that look at the same moment apart by its beginning.
create table shares (
  worker_id bigint not null references workers on delete cascade,
  scope text not null,
  first_place text not null,
  first_user_id bigint not null,
  last_place text not null,
  last_user_id bigint not null,
  primary key (scope, first_place, first_user_id)
);

create index shares_by_worker on shares (worker_id);

-- Who was served in a scope: `weekly:2026-W47`, or that of one forced run. The row is written with the delivery, is what
-- makes a second one impossible, and outlives the delivery and the user.
create table claims (
  scope text not null,
  email text not null,
  claimed_at timestamptz not null default now(),
  -- of a weekly push: how many leads it had, and a hash of the queries; the guard compares the next one with it
  leads integer,
  queries_mark integer,
  primary key (scope, email)
);

create table deliveries (
  -- no counted repetition in it: that would be a fifteenth of what the ledger costs
  idempotency_key text primary key check (length(idempotency_key) between 1 and 64 and idempotency_key !~ '[^!-~]'),
  run_id bigint not null,
  user_id bigint not null,
  period text not null,
  kind text not null check (kind in ('weekly', 'forced', 'single', 'subscription')),
  part integer not null check (part between 1 and parts),
  parts integer not null,
  queries integer not null,
  leads integer not null,
  bytes integer not null check (bytes between 1 and 5000000),
  -- the body: these queries, and the lead_versions with these ids (varints: the first, then each one's distance to it)
  query_list text not null,
  recipe bytea not null,
  created_at timestamptz not null default now(),
  status text not null check (status in ('pending', 'delivered', 'failed', 'unknown')),
  -- attempts recorded; the last of them is under way, or was when its process died
  attempts integer not null check (attempts between 0 and 2),
  under_way boolean not null,
  worker_id bigint,
  -- from when on the next attempt may be made
  due_at timestamptz not null default now(),
  -- …_open: that attempt may have reached the receiver without a complete answer
  first_at timestamptz,
  first_ms integer,
  first_status integer,
  first_error text,
  first_open boolean not null default false,
  second_at timestamptz,
  second_ms integer,
  second_status integer,
  second_error text,
  second_open boolean not null default false,
  -- why no further attempt was made, where it was not the attempts that ended it
  end_reason text,
  check (not under_way or (status = 'pending' or status = 'delivered')),
  check (attempts > 0 or not under_way)
) with (fillfactor = 80);

-- what waits, by how many attempts it has had and in its order; apart from it what is under way
create index deliveries_pending on deliveries (under_way, attempts, due_at) where status = 'pending';
-- a sidecar looks for these again and again, also while much else waits
create index deliveries_subscriptions on deliveries (user_id) where status = 'pending' and kind = 'subscription';
create index deliveries_by_user on deliveries (user_id, created_at);
-- small, and written once a delivery, when it ends: what became of a period is counted without reading its rows
create index deliveries_ended on deliveries (period, status) where status in ('delivered', 'failed', 'unknown');

-- contract 4.12: receivers as all processes together know them, each by its URL, which may hold a secret
create table receivers (
  url_sha256 bytea primary key check (octet_length(url_sha256) = 32),
  -- since when it is down; null: it is not, as far as anybody knows
  down_since timestamptz,
  -- attempts that were made since, when the next one may be, and when the last second attempt of a delivery was one of them
  tries integer not null default 0,
  next_at timestamptz not null default now(),
  second_at timestamptz
);

-- What an erasure ended of the deliveries that a living process has: it is to tell of them.
create table erased_deliveries (
  worker_id bigint not null references workers on delete cascade,
  idempotency_key text not null,
  primary key (worker_id, idempotency_key)
);
