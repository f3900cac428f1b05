-- Listings. A push reads only a lead's serialised JSON, which is made once, when the lead changes: `lead_versions` is
-- insert-only, and the recipe of a delivery names its rows. `leads` is narrow, so that matching reads few pages. `lead_seen`
-- is a table of its own, because every import updates it for every listing (HOT updates, with no index to maintain).

create table imports (
  id bigint generated always as identity primary key,
  file text not null,
  started_at timestamptz not null default now(),
  -- the counts of the summary; and the filled fields among the listings, which tell the feed's health
  records bigint not null default 0 check (records >= 0),
  inserted bigint not null default 0 check (inserted >= 0),
  updated bigint not null default 0 check (updated >= 0),
  unchanged bigint not null default 0 check (unchanged >= 0),
  rejected bigint not null default 0 check (rejected >= 0),
  repeated bigint not null default 0 check (repeated >= 0),
  erased bigint not null default 0 check (erased >= 0),
  filled_fields bigint not null default 0 check (filled_fields >= 0),
  -- the last version before this import. Versions of its leads have higher ids, which is how new leads are found without an
  -- index
  base_version_id bigint not null default 0
);

create table leads (
  id bigint generated always as identity primary key,
  href_sha256 bytea not null unique check (octet_length(href_sha256) = 32),
  -- matching compares this: 5 digits of a ZIP, 3 characters of a Canadian code, or another code, normalised
  postal_key text not null check (char_length(postal_key) between 1 and 100),
  -- the place of its city and state, if no postal code is named after that: a `code` of `postal_codes`
  city_key text,
  -- the current row of lead_versions; ids rise with recency, so they serve as order, tie-break and index at once
  version_id bigint not null,
  -- the hash of that version's json and kept, by which an import sees what has not changed without reading them
  json_sha256 bytea not null check (octet_length(json_sha256) = 32),
  -- no foreign key, or deleting an import would read all listings
  first_import_id bigint not null,
  search tsvector not null,
  -- what listings of one house on several sites share; null: of no house. Of a house the lowest id was imported first
  house bytea check (octet_length(house) = 8)
) with (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.05);

create index leads_by_place on leads (postal_key, version_id desc) include (id);
create index leads_by_city on leads (city_key, version_id desc) include (id) where city_key is not null;
create index leads_by_recency on leads (version_id desc);
create index leads_by_house on leads (house, id) where house is not null;

-- The blocks of 2^12, 2^15, 2^18, 2^21 and 2^24 ids that hold a version, each number marked with the size of its block. In
-- one index with the words, they let a search look at one stretch of ids: it goes from the newest back, and reads no more
-- than it needs.
create function version_blocks(version_id bigint) returns bigint[] language sql immutable parallel safe
return array[
  (version_id >> 12) * 8, (version_id >> 15) * 8 + 1, (version_id >> 18) * 8 + 2, (version_id >> 21) * 8 + 3,
  (version_id >> 24) * 8 + 4
];

create index leads_by_word on leads using gin (search, version_blocks(version_id));

-- no foreign keys on these two tables: an import changes a million of their rows, and only imports and erasures write them
create table lead_seen (
  lead_id bigint primary key,
  seen_at timestamptz not null,
  -- how many optional fields the last record filled: the guard compares them
  filled smallint,
  -- whether any record had a price: a listing without one has the price 0 too
  price_known boolean not null default false,
  -- whether it has sources and none of them has it any more: then it is not delivered
  gone boolean not null default false
) with (fillfactor = 50);

create sequence lead_version_ids;

create table lead_versions (
  id bigint primary key,
  lead_id bigint not null,
  -- as it is delivered
  json text not null check (octet_length(json) > 0),
  bytes integer not null generated always as (octet_length(json)) stored,
  superseded_at timestamptz,
  -- the JSON of the fields that are stored and not delivered; null: none of them is known
  kept text,
  -- the contacts in `json`, for erasures, which look at those of all versions
  contact_name text,
  contact_phone text,
  contact_email text
);

-- the statistics would keep contacts, also of listings that were erased
alter table lead_versions alter json set statistics 0, alter kept set statistics 0, alter contact_name set statistics 0,
  alter contact_phone set statistics 0, alter contact_email set statistics 0;
alter table leads alter search set statistics 0;

create index lead_versions_superseded on lead_versions (superseded_at) where superseded_at is not null;
-- finds all kept versions of a listing. A version enters this index only when a later one replaces it, so new listings cost
-- nothing
create index lead_versions_by_lead on lead_versions (lead_id) where superseded_at is not null;

-- What imports changed of listings that triggers tell of, which must not need versions that may be gone. A row of the kind
-- `price_change` has both prices as its payload, null where one was unknown; of `lead_gone` the import is the complete one that lacked
-- the listing. A row of `lead_back` is of a listing that was gone and is back, with the import and the time of its going as payload. That a listing came in stands in `leads` alone.
create table lead_events (
  -- its place among the versions: of a price_change the version with the new price, else a number of its own
  version_id bigint primary key,
  import_id bigint not null,
  lead_id bigint not null,
  kind text not null,
  payload jsonb
);

create index lead_events_by_lead on lead_events (lead_id);
