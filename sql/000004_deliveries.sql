-- The ledger: an attempt is recorded before it is sent, and its outcome after. It relies on the database's clock alone, and on no
-- state of a session.

-- An id by which a process knows itself or its run. A sequence may give an id twice: a standby that takes over may lack the last rows, and
-- a process that still goes by a lost row must not be taken for another.
create function random_id() returns bigint language sql volatile as $$ select 1 + floor(random() * 281474976710655)::bigint $$;

-- Which server this is, as text: it changes with every start, and where another server takes over (contract 4.7).
create function this_server() returns text language sql stable as $$ select extract(epoch from pg_postmaster_start_time())::text $$;

-- One row per process that pushes. While its lease runs, its ranges and deliveries are its own; then any process may take them over.
create table workers (
  id bigint primary key default random_id(),
  host text not null,
  process_id integer not null,
  started_at timestamptz not null default now(),
  lease_until timestamptz not null,
  renewed_at timestamptz not null default now()
);

-- Work that one process does at a time, over all machines.
create table duties (
  name text primary key,
  worker_id bigint not null references workers on delete cascade,
  since timestamptz not null default now(),
  -- whether another process asked for it meanwhile: whoever has it looks again before it gives it back
  asked boolean not null default false
);

-- When a worker's lease ends: `w.lease_end`. A lease that was renewed in the future counts as over, since the clock was wrong then
-- (contract 4.13). It is compared with clock_timestamp(): a renewal since the statement began lies in the future of its now(). A
-- server that took over in a failover may be behind by up to a second.
create function lease_end(w workers) returns timestamptz language plpgsql stable parallel safe as $$
begin
  return case when w.renewed_at > clock_timestamp() + interval '1 second' then '-infinity' else w.lease_until end;
end $$;

create table runs (
  id bigint primary key default random_id(),
  command text not null check (command in ('all', 'force', 'resume', 'failed', 'user', 'owed')),
  period text not null check (period ~ '^[0-9]{4}-W[0-9]{2}$'),
  time_zone text not null,
  worker_id bigint not null,
  -- false with --limit: over when it ends, however it ends
  resumable boolean not null,
  started_at timestamptz not null default now(),
  ended_at timestamptz,
  -- lost: the database lost what it had confirmed to the run, which noticed it and began nothing more
  outcome text not null default 'running' check (outcome in ('running', 'complete', 'failures', 'stopped', 'interrupted', 'lost')),
  -- how many statements have written for the run: where there are fewer than its process knows of, confirmed ones are gone
  statements bigint not null default 0,
  -- whether every user of the run was served, by itself or by a later run that resumed it
  came_to_end boolean not null default false,
  -- whether `prune` has deleted data of this age: claims of the run's users may be gone
  pruned boolean not null default false,
  -- imports of its week up to its beginning: distinct listings, and the filled fields of their last records
  listings bigint,
  filled_fields bigint,
  -- what the guard held the whole run for, and why: a sentence
  held_by text check (held_by in ('week', 'zone')),
  held text check ((held is null) = (held_by is null)),
  -- why its answers held the run: none showed that the receiver took a delivery (contract 4.5)
  held_by_answers text,
  -- begun with --accept
  accepted boolean not null default false,
  -- users whom the guard held back, and whom no later run of the period served
  held_users integer not null default 0
);

create index runs_by_start on runs (started_at);
create index runs_open on runs (period) where not came_to_end or held_users > 0;
-- for the few runs under way, and for those that a monitor asks for, among years of runs
create index runs_under_way on runs (worker_id) where outcome = 'running';
create index runs_complete on runs (ended_at) where came_to_end and command in ('all', 'force');

-- A range of users, in their order, that a process is working on: other processes look elsewhere. The primary key decides between two
-- processes that take the same range at the same moment.
create table user_ranges (
  worker_id bigint not null references workers on delete cascade,
  scope text not null,
  first_home_key text not null,
  first_user_id bigint not null,
  last_home_key text not null,
  last_user_id bigint not null,
  primary key (scope, first_home_key, first_user_id)
);

create index user_ranges_by_worker on user_ranges (worker_id);

-- The users served in a scope: `weekly:2026-W47`, or the scope of one forced run. The row is written with the delivery, makes a second
-- one impossible, and outlives the delivery and the user.
create table claims (
  scope text not null,
  email text not null,
  claimed_at timestamptz not null default now(),
  -- for a weekly push: its number of leads and a hash of its queries, with which the guard compares the next one
  leads integer,
  queries_mark integer,
  primary key (scope, email)
);

-- The last forced scope of each period, in which users who had their weekly delivery get one further delivery, by any number of runs.
create table forced_scopes (
  period text primary key,
  -- the run that opened it: it is for users who had their weekly delivery before that run began
  run_id bigint not null references runs on delete cascade,
  -- everybody was served, but for users whom the guard held back: the next `--force` opens another
  is_over boolean not null default false
);

-- the statistics would keep e-mails of users who were forgotten
alter table claims alter email set statistics 0;

create table deliveries (
  -- two checks instead of one pattern with `{1,64}`, which would be a fifteenth of the ledger's cost
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
  -- attempts recorded; `under_way`: the last of them has no outcome yet, and its process may have died
  attempts integer not null check (attempts between 0 and 2),
  under_way boolean not null,
  worker_id bigint,
  -- whether its last attempt that was recorded goes out compressed (contract 4.17)
  gzip boolean not null default false,
  -- from when on the next attempt may be made
  due_at timestamptz not null default now(),
  -- …_maybe_arrived: that attempt may have reached the receiver without a complete answer
  first_at timestamptz,
  first_ms integer,
  first_status integer,
  first_error text,
  first_maybe_arrived boolean not null default false,
  second_at timestamptz,
  second_ms integer,
  second_status integer,
  second_error text,
  second_maybe_arrived boolean not null default false,
  -- why the delivery ended, if its attempts did not end it
  end_reason text,
  -- delivered with an answer that shows nothing, among those that held its run (contract 4.5); false again once a run accepted that
  doubtful boolean not null default false,
  check (not under_way or (status = 'pending' or status = 'delivered')),
  check (attempts > 0 or not under_way)
) with (fillfactor = 80);

-- waiting deliveries by their number of attempts, in the order in which they are due; apart from them those under way
create index deliveries_pending on deliveries (under_way, attempts, due_at) where status = 'pending';
-- `serve` looks for these again and again, also while many other deliveries wait
create index deliveries_subscriptions on deliveries (user_id) where status = 'pending' and kind = 'subscription';
create index deliveries_by_user on deliveries (user_id, created_at);
-- small, since a delivery enters it once, when it ends: the results of a period are counted without reading its rows
create index deliveries_ended on deliveries (period, status) where status in ('delivered', 'failed', 'unknown');
create index deliveries_doubtful on deliveries (period) where doubtful;

-- What the receiver said when it refused an attempt (contract 4.16).
create table answers (
  idempotency_key text not null references deliveries on delete cascade,
  attempt integer not null check (attempt in (1, 2)),
  answer text not null check (char_length(answer) between 1 and 300),
  primary key (idempotency_key, attempt)
);

-- the statistics would keep answers that are gone
alter table answers alter answer set statistics 0;

-- What all processes together know of each receiver (contract 4.12). The key is a hash of its URL, which may hold a secret.
create table receivers (
  url_sha256 bytea primary key check (octet_length(url_sha256) = 32),
  -- the trouble that it is in as a whole, and since when; null: none is known
  trouble text check (trouble in ('down', 'refuses', 'asks')),
  trouble_since timestamptz check ((trouble_since is null) = (trouble is null)),
  -- the status that every delivery gets
  refused_status smallint check ((refused_status is not null) = (trouble is not distinct from 'refuses')),
  -- attempts made since then, when the next one may be made, and when a second attempt was last among them
  tries integer not null default 0,
  next_at timestamptz not null default now(),
  second_at timestamptz,
  -- the last success that a run has told of: they do so once a second, and when they end
  well_at timestamptz,
  well_by bigint check ((well_by is null) = (well_at is null)),
  -- until when the receiver asked for a pause, and how many attempts a second it took from one process, as was found then
  paused_until timestamptz,
  rate double precision check (rate > 0),
  rate_at timestamptz,
  -- contract 4.17: an answer of it said that it takes gzip; and when it last refused a delivery with 415
  takes_gzip boolean not null default false,
  refused_gzip_at timestamptz
);

-- Deliveries of a process that an erasure has ended: the process reports them, with what came of an attempt where one was under way.
create table erased_deliveries (
  idempotency_key text primary key,
  worker_id bigint not null references workers on delete cascade
);
