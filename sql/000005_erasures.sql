-- Erasures: listings and users that were erased and must not come back. The table holds keyed hashes alone: a reader of the table learns nothing
-- from it, and can test a guess only with the key. `db backup` writes the key too, or a restored database would let in what was erased.

create table erasure_key (
  key bytea not null check (octet_length(key) = 32)
);

insert into erasure_key select sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()));

create table erasures (
  -- HMAC-SHA-256 of the sha256 of the href, of the normalised contact, of the hash that a consumer deletion list has, or of the e-mail of
  -- a user
  mark bytea primary key check (octet_length(mark) = 32),
  -- email and phone are those of consumer deletion lists
  kind text not null check (kind in ('href', 'contact', 'email', 'phone', 'user')),
  erased_at timestamptz not null default now(),
  -- keeps listings, and drops their contacts
  redacts boolean not null default false,
  -- whether anything was erased for it: a consumer deletion list asks
  found boolean not null default false,
  -- of a contact: the mark that it would have in a consumer deletion list
  list_mark bytea
);

-- tells an import what there is, however many identifiers of lists there are
create index erasures_by_kind on erasures (kind, redacts) where kind in ('href', 'contact', 'user');
create index erasures_by_list_mark on erasures (list_mark) where found and list_mark is not null;

-- The work items of consumer deletion lists. Several may name one person, who is kept out until the last of them is removed. A removed one
-- keeps its row without a mark, so that an older list that is read again does not bring it back.
create table work_items (
  id text primary key,
  mark bytea check (octet_length(mark) = 32)
);

create index work_items_by_mark on work_items (mark) where mark is not null;

-- Rises with every erasure of listings. Reading a sequence ignores the snapshot, so a statement that begins deliveries sees an erasure
-- that was committed a moment ago.
create sequence erasure_count;
select setval('erasure_count', 1);
