-- The points of postal codes: ZIP codes of the United States with its territories, and the first three characters of Canadian
-- codes; and of places that no code is named after, whose `code` is their state and name: `GA Sandy Springs`. The header of
-- make-postal-codes.js names the sources of the rows and their licences.
-- rows: 000002_postal_codes.tsv

create table postal_codes (
  code text primary key,
  country text not null check (country in ('US', 'CA')),
  state text not null,
  city text not null,
  latitude double precision not null check (latitude between -90 and 90),
  longitude double precision not null check (longitude between -180 and 180)
);
