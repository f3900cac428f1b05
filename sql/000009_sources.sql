-- Where listings come from. A source has a listing until one of its complete imports lacks it; `lead_seen.gone` says that no source has it
-- any more, and is all that matching reads. An import writes only what differs: a listing that its source still has costs no write here.

create table sources (
  id integer generated always as identity primary key,
  name text not null unique check (name ~ '^[A-Za-z0-9._-]{1,50}$'),
  -- when an import with this source last came to its end, and when a complete one did
  imported_at timestamptz not null,
  completed_at timestamptz
);

-- no foreign keys, and no index by source, as for lead_seen: imports and counts read the table as a whole
create table lead_sources (
  lead_id bigint not null,
  source_id integer not null,
  -- when a complete import of the source first lacked the listing; null: the source has it
  gone_at timestamptz,
  -- the import that brought the listing to the source, or since which it is gone: of several sources the first has the lowest
  since_import_id bigint not null default 0,
  -- which fields its records gave since then, as `givenFields` in the code: of these the first source decides
  given integer not null default 0,
  primary key (lead_id, source_id)
);

-- what `runs.listings` and `runs.filled_fields` are for all listings, for those of each source
create table run_sources (
  run_id bigint not null references runs on delete cascade,
  source_id integer not null references sources on delete cascade,
  listings bigint not null,
  filled_fields bigint,
  primary key (run_id, source_id)
);
