-- What the reference receiver keeps: the deliveries that it took, by their key, and each user's leads under the null rule. A
-- user is known by a hash of their key alone. Nothing of leadpush's own reads these two tables.

create table receiver_deliveries (
  idempotency_key text primary key,
  user_key_sha256 bytea not null,
  data_source text not null,
  body_sha256 bytea not null,
  -- how often the key came with a body that can be taken
  times integer not null default 1,
  -- who is taking it, and until when others believe that; over when applied_at is set
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
  -- the last that changed it
  last_delivery text not null,
  primary key (user_key_sha256, href)
);
