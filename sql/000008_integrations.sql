-- Integrations (an API key of a user for an automation platform), hooks (URLs that integrations register for triggers), and
-- triggers that are to be sent. Keys are kept only as hashes; a signing secret is kept as it is, or sealed (`data_keys`),
-- because triggers are signed with it.

create table integrations (
  id bigint generated always as identity primary key,
  user_id bigint not null references users on delete cascade,
  api_key_sha256 bytea not null unique check (octet_length(api_key_sha256) = 32),
  signing_secret text not null check (signing_secret ~ '^(whsec_[A-Za-z0-9+/]+=*|sealed:.+)$'),
  created_at timestamptz not null default now(),
  -- contract 3, `integrations rotate`: the key and the secret before these, and until when they count beside them
  previous_api_key_sha256 bytea check (octet_length(previous_api_key_sha256) = 32),
  previous_signing_secret text check (previous_signing_secret ~ '^(whsec_[A-Za-z0-9+/]+=*|sealed:.+)$'),
  previous_until timestamptz,
  check (num_nulls(previous_api_key_sha256, previous_signing_secret, previous_until) in (0, 3))
);

-- as for users.receiver_key
alter table integrations alter signing_secret set statistics 0, alter previous_signing_secret set statistics 0;

create index integrations_by_previous_key on integrations (previous_api_key_sha256) where previous_api_key_sha256 is not null;
create index integrations_by_user on integrations (user_id);

create table hooks (
  -- not a number: a webhook-id follows from it and must never stand for another trigger, whatever backup is restored
  id uuid primary key default gen_random_uuid(),
  integration_id bigint not null references integrations on delete cascade,
  url text not null check (char_length(url) between 1 and 2048),
  -- of the one spelling of all URLs with the same meaning: such a URL is the same hook
  url_sha256 bytea not null check (octet_length(url_sha256) = 32),
  created_at timestamptz not null default now(),
  -- contract 5.3: which triggers it asked for
  triggers text[] not null default '{new_lead}'
    check (cardinality(triggers) > 0),
  -- contract 6.1: leads up to this import have been looked at, or are older than the hook; imports are committed in the order
  -- of their ids
  looked_import_id bigint not null,
  -- the last attempt of a trigger and its outcome
  last_at timestamptz,
  last_status integer,
  last_error text,
  -- contract 6.5: how many attempts in a row have failed, and until when nothing is sent to it
  failures smallint not null default 0,
  paused_until timestamptz,
  -- how many triggers were ever given up; when the last one was, and why
  abandoned bigint not null default 0,
  abandoned_at timestamptz,
  abandoned_error text,
  -- how many listings beyond the newest of a run were ever dropped; when the last one was
  dropped bigint not null default 0,
  dropped_at timestamptz,
  -- since when all attempts have failed; null after a success
  failing_since timestamptz,
  -- contract 6.5: since when the hook is switched off; what is new for it goes to lost_triggers
  off_since timestamptz,
  unique (integration_id, url_sha256)
) with (fillfactor = 80);

create index hooks_abandoned on hooks (abandoned_at) where abandoned_at is not null;
create index hooks_dropped on hooks (dropped_at) where dropped_at is not null;
create index hooks_off on hooks (off_since) where off_since is not null;
create index hooks_failing on hooks (failing_since) where failing_since is not null;

-- A trigger that a hook is still to get. The row goes when the hook has got it or it is given up, so the table holds only
-- triggers that are due or will be tried again.
create table triggers (
  hook_id uuid not null references hooks on delete cascade,
  -- the lead's version when it was looked at, or the place of the event among the versions; it rises with recency
  version_id bigint not null,
  kind text not null,
  lead_id bigint not null,
  -- what the kind tells beside the lead, such as the price before
  payload jsonb,
  occurred_at timestamptz not null,
  -- 'infinity': set aside, because its listing is gone or too old; a run makes it due once an import brought the listing again
  due_at timestamptz not null,
  -- attempts with a recorded outcome; all of them failed
  attempts smallint not null default 0,
  -- when the first of them was recorded
  failing_since timestamptz,
  -- the process that makes the next attempt, or did so when it died
  worker_id bigint,
  last_error text,
  primary key (hook_id, version_id, kind)
) with (fillfactor = 80);

create index triggers_failing on triggers (hook_id) where attempts > 0;
create index triggers_due on triggers (due_at);

-- Triggers that a hook did not get, kept for `trigger --again`: a row for all of one kind that were lost at one moment.
create table lost_triggers (
  id bigint generated always as identity primary key,
  hook_id uuid not null references hooks on delete cascade,
  kind text not null,
  lost_at timestamptz not null default now(),
  -- whether they were beyond the newest of a run, and never tried
  dropped boolean not null default false,
  -- for each of them the listing, and its version, time and payload in `triggers`
  lead_ids bigint[] not null check (cardinality(lead_ids) > 0),
  version_ids bigint[] not null,
  occurred_at timestamptz[] not null,
  payloads jsonb[] not null,
  check (cardinality(version_ids) = cardinality(lead_ids) and cardinality(occurred_at) = cardinality(lead_ids)
    and cardinality(payloads) = cardinality(lead_ids))
);

create index lost_triggers_by_hook on lost_triggers (hook_id);
create index lost_triggers_by_age on lost_triggers (lost_at);

-- contract 4.16: what a hook said when it refused its last trigger, and for which lead
create table hook_answers (
  hook_id uuid primary key references hooks on delete cascade,
  lead_id bigint not null,
  answer text not null check (char_length(answer) between 1 and 300),
  said_at timestamptz not null default now()
);

-- as for answers.answer
alter table hook_answers alter answer set statistics 0;
