-- Triggers: what is to be sent to hooks. A row is a lead that a hook has not got yet; it goes when the hook has it, or when it
-- is given up, so the table holds no more than what is due or will be tried again.

-- the last version before the import: those of its leads lie above, which is how new leads are found without an index
alter table imports add column base_version_id bigint not null default 0;

-- A hook is in the hands of one process at a time, so that what it gets at once and in a second is known there.
alter table hooks
  add column worker_id bigint,
  -- when the first of its triggers is due; null: it has none
  add column due_at timestamptz,
  -- contract 6.5: it asked for a pause, or gets one for failing; until then nothing is sent to it
  add column paused_until timestamptz,
  -- triggers that were given up, ever; when the last of them was, and why
  add column abandoned bigint not null default 0,
  add column abandoned_at timestamptz,
  add column abandoned_error text,
  -- listings beyond the newest of a run, ever; when the last of them was
  add column dropped bigint not null default 0,
  add column dropped_at timestamptz,
  -- since when attempts have failed, with none between that was delivered
  add column failing_since timestamptz;

create index hooks_due on hooks (due_at) where due_at is not null;
create index hooks_abandoned on hooks (abandoned_at) where abandoned_at is not null;
create index hooks_dropped on hooks (dropped_at) where dropped_at is not null;
create index hooks_failing on hooks (failing_since) where failing_since is not null;

create table triggers (
  hook_id uuid not null references hooks on delete cascade,
  -- of the lead when it was looked at; it rises with recency
  version_id bigint not null,
  lead_id bigint not null,
  occurred_at timestamptz not null,
  due_at timestamptz not null,
  -- attempts with an outcome, all of them failures
  attempts smallint not null default 0,
  -- the process that is making the next one, or was when it died
  worker_id bigint,
  last_error text,
  primary key (hook_id, version_id)
) with (fillfactor = 80);

create index triggers_failing on triggers (hook_id) where attempts > 0;
