-- The connections of automation platforms: an integration is an API key of a user, a hook a URL that it registered for
-- triggers. Keys are kept as hashes alone; a signing secret has to be kept as it is, since triggers are signed with it.

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
  unique (integration_id, url_sha256)
) with (fillfactor = 80);
