-- A stretch is taken by one statement, which tells two processes that look at the same moment apart by its beginning.

delete from shares;
alter table shares drop constraint shares_pkey;
alter table shares add primary key (scope, first_place, first_user_id);
drop index shares_by_scope;
create index shares_by_worker on shares (worker_id);
