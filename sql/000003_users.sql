-- Users, their queries, and the searches to which queries are resolved. Queries with the same meaning share one row of
-- `searches`, of all users, so that its matches are computed once a run. A search is resolved when its first query
-- comes in.

create table searches (
  id bigint generated always as identity primary key,
  -- sha256 of the search's meaning: kind, postal keys and words, normalised
  meaning_sha256 bytea not null unique check (octet_length(meaning_sha256) = 32),
  -- 'place' matches the postal and city keys, 'words' all the words, 'both' matches both
  kind text not null check (kind in ('place', 'words', 'both')),
  places text[] check ((places is not null) = (kind in ('place', 'both'))),
  words text check ((words is not null) = (kind in ('words', 'both'))),
  -- the version of the resolver: a newer program resolves the search again
  resolver integer not null
);

create table users (
  id bigint generated always as identity primary key,
  email text not null check (email = lower(email) and char_length(email) between 3 and 254),
  -- not {1,50}: PostgreSQL would walk through that many states of the expression for each row
  -- the key itself, or sealed (`data_keys`)
  receiver_key text not null check (
    (length(receiver_key) between 1 and 50 or starts_with(receiver_key, 'sealed:')) and receiver_key !~ '[^!-~]'),
  subscribed boolean not null,
  -- the postal key of the first place among the queries. Users near each other are served together, so that a bounded cache
  -- of leads hits
  home_key text not null default '',
  -- since when the user has been subscribed and has had queries: a push that began before did not set out to serve the user
  due_since timestamptz not null default now(),
  created_at timestamptz not null default now(),
  -- counting whom a period has served reads all users in this order, and otherwise fetches each from a page of its own
  unique (email) include (subscribed)
);

-- the statistics would hold keys as they are, also after they were sealed, and e-mails of users who were removed
alter table users alter receiver_key set statistics 0, alter email set statistics 0;

-- What equal receiver keys have in common: a sealed one ends with a keyed hash of the key.
create function key_mark(receiver_key text) returns text language sql immutable
return case when length(receiver_key) > 50 then split_part(receiver_key, ':', 4) else receiver_key end;

create index users_in_order on users (home_key, id) where subscribed;

-- Contract 5.3: since when a subscription push is owed, and when the last one began. It is owed only while the user is subscribed, so who
-- unsubscribes users leaves these rows alone: a push never waits for an import.
create table subscription_pushes (
  user_id bigint primary key references users on delete cascade,
  owed_at timestamptz,
  begun_at timestamptz
);

create index subscription_pushes_owed on subscription_pushes (owed_at, user_id) where owed_at is not null;

create table queries (
  user_id bigint not null references users on delete cascade,
  position integer not null check (position between 0 and 999),
  type text not null check (type in ('zipcode', 'text')),
  value text not null check (char_length(value) between 1 and 500),
  radius double precision not null check (radius between 0 and 100),
  -- contract 1: the value followed by the radius, as JSON writes it
  hash text not null,
  -- the query as an element of queryList, serialised
  json text not null,
  search_id bigint not null references searches,
  primary key (user_id, position),
  unique (user_id, hash)
);

create index queries_by_search on queries (search_id);
