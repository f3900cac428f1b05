-- The tables of the reference receiver: the deliveries that it took, by key, and each user's leads under the null rule. A
-- user is known only by a hash of their key. No other part of leadpush reads these two tables.

create table receiver_deliveries (
  idempotency_key text primary key,
  user_key_sha256 bytea not null,
  data_source text not null,
  body_sha256 bytea not null,
  -- how often the key came with an acceptable body
  times integer not null default 1,
  -- the request that is applying the delivery, and until when others leave that to it; over when applied_at is set
  claim text not null,
  claimed_until timestamptz not null,
  first_at timestamptz not null default now(),
  applied_at timestamptz
);

create table receiver_leads (
  user_key_sha256 bytea not null,
  href text not null,
  lead jsonb not null,
  first_delivery text not null,
  -- the last delivery that changed the lead
  last_delivery text not null,
  primary key (user_key_sha256, href)
);
