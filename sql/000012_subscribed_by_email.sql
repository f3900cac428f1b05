-- Whether a user is subscribed stands in the index by e-mail. Counting whom a period has served reads all users in that order, and would
-- otherwise fetch each from a page of its own.

create unique index users_by_email on users (email) include (subscribed);
alter table users drop constraint users_email_key, add constraint users_by_email unique using index users_by_email;
