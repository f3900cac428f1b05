-- The users whom the files of one `users import --complete` have had so far, by the sha256 of their e-mail. A file is a transaction
-- of its own, so the last file finds here what the earlier ones had. The rows go with the import.

create table listed_users (
  import_id uuid not null,
  email_sha256 bytea not null check (octet_length(email_sha256) = 32),
  listed_at timestamptz not null default now(),
  primary key (import_id, email_sha256)
);
