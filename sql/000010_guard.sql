-- What the guard compares a week with. All columns are narrow, and written by statements that run anyway: an import notes with
-- each listing how many fields its record filled, a weekly push notes with the claim how many leads it had, and for which queries.

-- of the last record, without the fields that a listing cannot be without; null: seen by an older program
alter table lead_seen add column filled smallint;

-- null in every scope but a weekly one, and where an older program made it
alter table claims
  add column leads integer,
  -- a hash of the queries
  add column queries_mark integer;

alter table runs
  -- what was imported in its week, when it began: distinct listings, and the fields that their last records filled
  add column listings bigint,
  add column filled_fields bigint,
  -- why the guard held back all of it
  add column held text,
  -- begun with --accept
  add column accepted boolean not null default false,
  -- users whom the guard held back, and whom no later run of the period served
  add column held_users integer not null default 0;

drop index runs_open;
create index runs_open on runs (period) where not came_to_end or held_users > 0;
