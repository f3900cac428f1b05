-- Users, their queries, and the searches that these come to. Queries of any number of users that mean the same share one
-- row of `searches`, so that what it matches is computed once a run; it is resolved when the first of them comes in.

create table searches (
  id bigint generated always as identity primary key,
  -- sha256 of what the search means: kind, place, radius, words, normalised
  meaning_sha256 bytea not null unique check (octet_length(meaning_sha256) = 32),
  -- 'place': the postal keys; 'words': all the words; 'both'
  kind text not null check (kind in ('place', 'words', 'both')),
  places text[] check ((places is not null) = (kind in ('place', 'both'))),
  words text check ((words is not null) = (kind in ('words', 'both'))),
  -- the resolution's version: a newer program resolves it again
  resolver integer not null
);

create table users (
  id bigint generated always as identity primary key,
  email text not null unique check (email = lower(email) and char_length(email) between 3 and 254),
  -- a counted repetition, {1,50}, would make PostgreSQL walk through as many states of the expression for each row
  receiver_key text not null check (length(receiver_key) between 1 and 50 and receiver_key !~ '[^!-~]'),
  subscribed boolean not null,
  -- the postal key of the first place among the queries: neighbours on the map are served together, so that a bounded
  -- cache of leads hits
  place text not null default '',
  -- contract 5.3: the subscription push that is still to be sent, and when the last one was begun
  subscription_owed_at timestamptz,
  subscription_begun_at timestamptz,
  -- since when they have been subscribed, with queries: no push that began before set out to serve them
  due_since timestamptz not null default now(),
  created_at timestamptz not null default now()
);

create index users_in_order on users (place, id) where subscribed;
create index users_subscription_owed on users (subscription_owed_at) where subscription_owed_at is not null;

create table queries (
  user_id bigint not null references users on delete cascade,
  position integer not null check (position between 0 and 999),
  type text not null check (type in ('zipcode', 'text')),
  value text not null check (char_length(value) between 1 and 500),
  radius double precision not null check (radius between 0 and 100),
  -- contract 1: value followed by radius, as JSON writes it
  hash text not null,
  -- the element of queryList, serialised
  json text not null,
  search_id bigint not null references searches,
  primary key (user_id, position),
  unique (user_id, hash)
);

create index queries_by_search on queries (search_id);
