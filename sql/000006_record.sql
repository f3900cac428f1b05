-- The writes of every delivery, as functions: their plans are kept, since parsing and planning these statements each time costs as
-- much as running them. A kept plan must suit an empty ledger and a full one, so rows are looked up by key and whole tables are never
-- read. `lock_timeout` ends a wait for a lock before the caller gives the statement up.

-- The HTTP status and the error that are reported for a delivery.
create function http_status_of(d deliveries) returns integer language sql immutable
return case when d.attempts = 2 and (d.status <> 'delivered' or d.second_status between 200 and 299)
  then d.second_status else d.first_status end;

create function error_of(d deliveries) returns text language sql immutable
return case when d.status <> 'delivered' then coalesce(d.end_reason, d.second_error, d.first_error) end;

-- The last attempt: when it began, and how long it took (null: nobody recorded that). No attempt: both are null.
create function last_attempt_of(d deliveries) returns table (at timestamptz, ms integer) language sql immutable
begin atomic
  select case when d.attempts = 2 then d.second_at else d.first_at end, case when d.attempts = 2 then d.second_ms else d.first_ms end;
end;

-- Records the outcomes of attempts; returns the states of their deliveries.
create function record_outcomes(
  of_keys text[], of_attempts integer[], oks boolean[], maybe_arrived boolean[], http_statuses integer[], errors text[],
  took_ms integer[], retry_delays_ms integer[]
) returns table (delivery_key text, delivery_status text, delivery_attempts integer, delivery_http_status integer, delivery_error text)
language plpgsql set enable_seqscan = off set jit = off set lock_timeout = '10s' as $$
#variable_conflict use_column
begin
  return query update deliveries d set
    first_ms = case when o.attempt = 1 then o.ms else d.first_ms end,
    first_status = case when o.attempt = 1 then o.status else d.first_status end,
    first_error = case when o.attempt = 1 then o.error else d.first_error end,
    first_maybe_arrived = case when o.attempt = 1 then o.maybe_arrived else d.first_maybe_arrived end,
    second_ms = case when o.attempt = 2 then o.ms else d.second_ms end,
    second_status = case when o.attempt = 2 then o.status else d.second_status end,
    second_error = case when o.attempt = 2 then o.error else d.second_error end,
    second_maybe_arrived = case when o.attempt = 2 then o.maybe_arrived else d.second_maybe_arrived end,
    under_way = d.under_way and d.attempts <> o.attempt,
    due_at = case when d.attempts = o.attempt then now() + o.delay_ms * interval '1 millisecond' else d.due_at end,
    end_reason = case when o.attempt = 1 then d.end_reason end,
    status = case
      when o.ok or d.status = 'delivered' then 'delivered'
      when d.status = 'pending' and o.attempt = 1 and (d.end_reason is null or d.attempts = 2 and d.under_way) then 'pending'
      when o.maybe_arrived or (o.attempt = 1 and d.second_maybe_arrived) or (o.attempt = 2 and d.first_maybe_arrived) then 'unknown'
      else 'failed' end
  from unnest(of_keys, of_attempts, oks, maybe_arrived, http_statuses, errors, took_ms, retry_delays_ms)
    as o (key, attempt, ok, maybe_arrived, status, error, ms, delay_ms)
  -- a server that took over may lack the attempt: then another one may follow under the same key, and this outcome is not its own
  where d.idempotency_key = any (of_keys) and d.idempotency_key = o.key and d.attempts >= o.attempt
  returning d.idempotency_key, d.status, d.attempts, http_status_of(d), error_of(d);
  -- the caller tells these states: an end that an erasure had made before is not told again
  delete from erased_deliveries where idempotency_key = any (of_keys);
end $$;

-- Begins pushes, then records the outcomes of other attempts. A push is claimed in its scope, and its deliveries are written with the
-- attempts that start; but only if the worker holds its lease, this is the server on which they were planned, and `erasures_planned` is
-- the count behind the lock. `pushes` holds each delivery's push, counted from 1; its recipe is a stretch of `recipes`.
-- The first row returned has the state of the lease and the count. Rows with a push are pushes that were begun. The other rows are those
-- of `record_outcomes`.
create function record_pushes(
  worker bigint, server text, run bigint, run_period text, erasure_lock bigint, erasures_planned bigint,
  user_ids bigint[], emails text[], kinds text[], scopes text[], leads_of_pushes integer[], marks_of_pushes integer[],
  keys text[], pushes integer[], parts integer[], parts_in_all integer[], queries integer[], leads integer[], bytes integer[],
  query_lists text[], recipes bytea, recipe_bytes integer[], started boolean[], compressed boolean,
  of_keys text[], of_attempts integer[], oks boolean[], maybe_arrived boolean[], http_statuses integer[], errors text[],
  took_ms integer[], retry_delays_ms integer[]
) returns table (live boolean, erasures bigint, push bigint, email text, receiver_key text,
  delivery_key text, delivery_status text, delivery_attempts integer, delivery_http_status integer, delivery_error text)
language plpgsql set enable_seqscan = off set jit = off set lock_timeout = '10s' as $$
#variable_conflict use_column
begin
  perform set_config('synchronous_commit', 'on', true) where current_setting('synchronous_commit') in ('off', 'local');
  perform pg_advisory_xact_lock_shared(erasure_lock);
  select last_value into erasures from erasure_count;
  live := exists (select from workers w where w.id = worker and w.lease_end > clock_timestamp())
    and server = this_server();
  return next;
  if live and erasures = erasures_planned then
    return query
      with eligible as (
        -- a user whose place changed meanwhile may have been planned twice
        select distinct on (p.user_id, p.kind, p.scope) p.*, u.email, u.receiver_key
        from unnest(user_ids, emails, kinds, scopes, leads_of_pushes, marks_of_pushes) with ordinality
          as p (user_id, planned_email, kind, scope, leads, mark, push)
        cross join lateral (select * from users where id = p.user_id offset 0) u
        -- a server that took over may have given the id to another user; as a case, it leaves the estimates of the plan as they are
        where case when u.email = p.planned_email then u.subscribed or p.kind = 'single' else false end
      ),
      free as (
        -- what another statement is just beginning is not waited for: it may wait for another of these
        -- the case, here and below, hides the index of the owed: a plan made while nobody was owed would read all of it
        select user_id from subscription_pushes where user_id = any (user_ids) and 'subscription' = any (kinds)
          and case when owed_at is null then false else true end
        for update skip locked
      ),
      owed as (
        update subscription_pushes o set owed_at = null, begun_at = now()
        from eligible e join free f on f.user_id = e.user_id
        where o.user_id = any (user_ids) and o.user_id = e.user_id and e.kind = 'subscription'
          and case when o.owed_at is null then false else true end
        returning e.push
      ),
      claimed as (
        insert into claims (scope, email, leads, queries_mark)
        -- always in this order, so that no two processes wait for each other
        select scope, email, case kind when 'weekly' then leads end, case kind when 'weekly' then mark end from eligible
        where scope is not null order by scope, email
        on conflict do nothing returning scope, email
      ),
      granted as (
        select * from eligible e where case e.kind
          -- a call whose answer was lost may have begun it
          when 'single' then not exists (select from deliveries where idempotency_key = any (keys))
          when 'subscription' then e.push in (select push from owed)
          else exists (select from claimed c where c.scope = e.scope and c.email = e.email) end
      ),
      begun as (
        insert into deliveries (idempotency_key, run_id, user_id, period, kind, part, parts, queries, leads, bytes, query_list,
          recipe, status, attempts, under_way, gzip, worker_id, first_at)
        select d.key, run, g.user_id, run_period, g.kind, d.part, d.parts, d.queries, d.leads, d.bytes, d.query_list,
          substring(recipes from d.recipe_end - d.recipe_bytes + 1 for d.recipe_bytes), 'pending', d.started::integer, d.started, d.started and compressed,
          worker, case when d.started then now() end
        from (
          select d.*, sum(d.recipe_bytes) over (order by d.at)::integer as recipe_end
          from unnest(keys, pushes, record_pushes.parts, parts_in_all, record_pushes.queries, record_pushes.leads,
            record_pushes.bytes, query_lists, record_pushes.recipe_bytes, record_pushes.started)
            with ordinality as d (key, push, part, parts, queries, leads, bytes, query_list, recipe_bytes, started, at)
        ) d
        join granted g on g.push = d.push
      )
      select live, erasures, push, email, receiver_key, null, null, null::integer, null::integer, null from granted;
  end if;
  if cardinality(of_keys) > 0 then
    return query select live, erasures, null::bigint, null, null, o.*
      from record_outcomes(of_keys, of_attempts, oks, maybe_arrived, http_statuses, errors, took_ms, retry_delays_ms) o;
  end if;
end $$;
