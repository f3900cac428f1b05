-- Erasures: listings that were erased and must not come back. The table holds keyed hashes alone: a reader of the table learns nothing
-- from it, and can test a guess only with the key, which never leaves the database.

create table erasure_key (
  key bytea not null check (octet_length(key) = 32)
);

insert into erasure_key select sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()));

create table erasures (
  -- HMAC-SHA-256 of the sha256 of the href, or of the normalised contact
  mark bytea primary key check (octet_length(mark) = 32),
  kind text not null check (kind in ('href', 'contact')),
  erased_at timestamptz not null default now()
);

-- Rises with every erasure of listings. Reading a sequence ignores the snapshot, so a statement that begins deliveries sees an erasure
-- that was committed a moment ago.
create sequence erasure_count;
select setval('erasure_count', 1);
