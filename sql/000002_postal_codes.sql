-- Where a postal code lies: United States with its territories, and the first three characters of Canadian codes.
-- The rows are in 000002_postal_codes.tsv beside this file, which the migration loads; its sources and their licences are
-- named in the header of the script that makes it.

create table postal_codes (
  code text primary key,
  country text not null check (country in ('US', 'CA')),
  state text not null,
  city text not null,
  latitude double precision not null check (latitude between -90 and 90),
  longitude double precision not null check (longitude between -180 and 180)
);
