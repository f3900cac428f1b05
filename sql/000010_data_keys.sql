-- The keys with which receiver keys and signing secrets are encrypted at rest. Each is random, and kept encrypted with
-- LEADPUSH_SECRET_KEY, so that a change of that setting changes these few rows at once. No row: nothing is encrypted.

create table data_keys (
  -- follows from the key; encrypted values name it
  id text primary key check (id ~ '^[0-9a-f]{16}$'),
  wrapped text not null check (starts_with(wrapped, 'sealed:')),
  -- new values are encrypted with this one. Where there is none among the rows, values are being decrypted
  current boolean not null,
  created_at timestamptz not null default now()
);

create unique index data_keys_current on data_keys (current) where current;

-- For transactions that store such values: keeps the current key from being changed until the transaction ends, and throws where it
-- is another than the caller has.
create function hold_data_key(data_keys_lock bigint, expected_id text) returns boolean language plpgsql as $$
begin
  perform pg_advisory_xact_lock_shared(data_keys_lock);
  if (select id from data_keys where current) is distinct from expected_id then
    raise exception 'what secrets are encrypted with was changed meanwhile' using errcode = 'LP001';
  end if;
  return true;
end $$;
