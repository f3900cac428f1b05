-- What keeps years of weeks from being read: the few runs that are under way, and those that a monitor asks for, have indexes
-- of their own. `first_import_id` loses its foreign key: to delete an import would read all listings for it, row by row.

create index runs_under_way on runs (worker_id) where outcome = 'running';
create index runs_complete on runs (ended_at) where came_to_end and command in ('all', 'force');

alter table leads drop constraint leads_first_import_id_fkey;
