-- The connections of automation platforms, and what is to be sent to them: an integration is an API key of a user, a hook a URL
-- that it registered for triggers. Keys are kept as hashes alone; a signing secret has to be kept as it is, since triggers are
-- signed with it.

create table integrations (
  id bigint generated always as identity primary key,
  user_id bigint not null references users on delete cascade,
  api_key_sha256 bytea not null unique check (octet_length(api_key_sha256) = 32),
  signing_secret text not null check (signing_secret ~ '^whsec_[A-Za-z0-9+/]+=*$'),
  created_at timestamptz not null default now()
);

create index integrations_by_user on integrations (user_id);

create table hooks (
  -- not a number: a webhook-id follows from it, and must never name another trigger, whatever backup is restored
  id uuid primary key default gen_random_uuid(),
  integration_id bigint not null references integrations on delete cascade,
  url text not null check (char_length(url) between 1 and 2048),
  -- of the one spelling of all that mean the same: that URL again is the same hook
  url_sha256 bytea not null check (octet_length(url_sha256) = 32),
  created_at timestamptz not null default now(),
  -- contract 6.1: what came in up to this import has been looked at, or is older than the hook; imports are committed in
  -- the order of their ids
  looked_import_id bigint not null,
  -- the last attempt of a trigger, and what came of it
  last_at timestamptz,
  last_status integer,
  last_error text,
  -- it is in the hands of one process at a time, so that what it gets at once and in a second is known there
  worker_id bigint,
  -- when the first of its triggers is due; null: it has none
  due_at timestamptz,
  -- contract 6.5: it asked for a pause, or gets one for failing; until then nothing is sent to it
  paused_until timestamptz,
  -- triggers that were given up, ever; when the last of them was, and why
  abandoned bigint not null default 0,
  abandoned_at timestamptz,
  abandoned_error text,
  -- listings beyond the newest of a run, ever; when the last of them was
  dropped bigint not null default 0,
  dropped_at timestamptz,
  -- since when attempts have failed, with none between that was delivered
  failing_since timestamptz,
  unique (integration_id, url_sha256)
) with (fillfactor = 80);

create index hooks_due on hooks (due_at) where due_at is not null;
create index hooks_abandoned on hooks (abandoned_at) where abandoned_at is not null;
create index hooks_dropped on hooks (dropped_at) where dropped_at is not null;
create index hooks_failing on hooks (failing_since) where failing_since is not null;

-- A lead that a hook has not got yet. The row goes when the hook has it, or when it is given up, so the table holds no more than
-- what is due or will be tried again.
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
