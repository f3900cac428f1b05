-- Erasures: listings that are gone and must not come back. What was erased is known by keyed hashes alone, so that whoever
-- sees the table learns nothing from it, and by guessing only with the key, which is the database's own.

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

-- Rises with every erasure of listings. A sequence is read as it is, not as a snapshot has it: so whoever begins deliveries
-- learns of an erasure that was committed a moment ago.
create sequence erasure_count;
select setval('erasure_count', 1);
