-- Listings. What a push reads of a lead is its serialised JSON, made once, when the lead changes: `lead_versions` is
-- insert-only, and the recipe of a delivery names rows of it. `leads` is narrow, so that matching reads few pages;
-- `lead_seen` is apart from it, because every import touches it for every listing (HOT updates, no index to maintain).

create table imports (
  id bigint generated always as identity primary key,
  file text not null,
  started_at timestamptz not null default now(),
  -- the counts of the summary, and for the feed's health the filled fields among the listings
  records bigint not null default 0 check (records >= 0),
  inserted bigint not null default 0 check (inserted >= 0),
  updated bigint not null default 0 check (updated >= 0),
  unchanged bigint not null default 0 check (unchanged >= 0),
  rejected bigint not null default 0 check (rejected >= 0),
  repeated bigint not null default 0 check (repeated >= 0),
  erased bigint not null default 0 check (erased >= 0),
  filled_fields bigint not null default 0 check (filled_fields >= 0),
  -- the last version before it: those of its leads lie above, which is how new leads are found without an index
  base_version_id bigint not null default 0
);

create table leads (
  id bigint generated always as identity primary key,
  href_sha256 bytea not null unique check (octet_length(href_sha256) = 32),
  -- what matching compares: 5 digits, the first 3 characters of a Canadian code, or the code as it is, normalised
  postal_key text not null check (char_length(postal_key) between 1 and 100),
  -- the current row of lead_versions; it rises with recency, so it is order, tie-break and index at once
  version_id bigint not null,
  -- of that version's json: an import tells by it what has not changed, without reading the json
  json_sha256 bytea not null check (octet_length(json_sha256) = 32),
  -- no foreign key: to delete an import would read all listings for it
  first_import_id bigint not null,
  search tsvector not null
) with (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.05);

create index leads_by_place on leads (postal_key, version_id desc) include (id);
create index leads_by_recency on leads (version_id desc);

-- The blocks of 2^12, 2^15, 2^18, 2^21 and 2^24 ids that a version lies in, each marked by its size. Beside the words in one
-- index they let a search look at a stretch of ids alone: it goes from the newest back, and reads no more than it needs.
create function version_blocks(version_id bigint) returns bigint[] language sql immutable parallel safe
return array[
  (version_id >> 12) * 8, (version_id >> 15) * 8 + 1, (version_id >> 18) * 8 + 2, (version_id >> 21) * 8 + 3,
  (version_id >> 24) * 8 + 4
];

create index leads_by_word on leads using gin (search, version_blocks(version_id));

-- no foreign keys on these two: a million rows an import go through them, and only an import and an erasure write them
create table lead_seen (
  lead_id bigint primary key,
  seen_at timestamptz not null,
  -- fields that the last record filled, without those that a listing cannot be without: the guard compares it
  filled smallint
) with (fillfactor = 50);

create sequence lead_version_ids;

create table lead_versions (
  id bigint primary key,
  lead_id bigint not null,
  json text not null check (octet_length(json) > 0),
  bytes integer not null generated always as (octet_length(json)) stored,
  superseded_at timestamptz
);

create index lead_versions_superseded on lead_versions (superseded_at) where superseded_at is not null;
-- of a listing all that was ever kept of it; a version comes in here only when a later one replaces it: new listings pay nothing
create index lead_versions_by_lead on lead_versions (lead_id) where superseded_at is not null;
