-- What a push writes for every delivery, as functions, whose plans are kept: reading and planning such statements anew each time
-- cost as much as carrying them out. A kept plan must be right for an empty ledger and for a full one, whichever it was made for:
-- rows are looked up by their key alone, and whole tables are never read. None waits for a lock for longer than its caller waits
-- for it.

-- How a delivery stands: the HTTP status and the error that are told of it.
create function told_status(d deliveries) returns integer language sql immutable
return case when d.attempts = 2 and (d.status <> 'delivered' or d.second_status between 200 and 299)
  then d.second_status else d.first_status end;

create function told_error(d deliveries) returns text language sql immutable
return case when d.status <> 'delivered' then coalesce(d.end_reason, d.second_error, d.first_error) end;

-- Records what came of attempts; returns how their deliveries stand then.
create function record_outcomes(
  keys text[], attempts integer[], oks boolean[], opens boolean[], http_statuses integer[], errors text[],
  took_ms integer[], retry_delays_ms integer[]
) returns table (told_key text, told_status text, told_attempts integer, told_http_status integer, told_error text)
language plpgsql set enable_seqscan = off set jit = off set lock_timeout = '10s' as $$
#variable_conflict use_column
begin
  return query update deliveries d set
    first_ms = case when o.attempt = 1 then o.ms else d.first_ms end,
    first_status = case when o.attempt = 1 then o.status else d.first_status end,
    first_error = case when o.attempt = 1 then o.error else d.first_error end,
    first_open = case when o.attempt = 1 then o.open else d.first_open end,
    second_ms = case when o.attempt = 2 then o.ms else d.second_ms end,
    second_status = case when o.attempt = 2 then o.status else d.second_status end,
    second_error = case when o.attempt = 2 then o.error else d.second_error end,
    second_open = case when o.attempt = 2 then o.open else d.second_open end,
    under_way = d.under_way and d.attempts <> o.attempt,
    due_at = case when d.attempts = o.attempt then now() + o.delay_ms * interval '1 millisecond' else d.due_at end,
    end_reason = case when o.attempt = 1 then d.end_reason end,
    status = case
      when o.ok or d.status = 'delivered' then 'delivered'
      when d.status = 'pending' and o.attempt = 1 and (d.end_reason is null or d.attempts = 2 and d.under_way) then 'pending'
      when o.open or (o.attempt = 1 and d.second_open) or (o.attempt = 2 and d.first_open) then 'unknown'
      else 'failed' end
  from unnest(keys, record_outcomes.attempts, oks, opens, http_statuses, errors, took_ms, retry_delays_ms)
    as o (key, attempt, ok, open, status, error, ms, delay_ms)
  where d.idempotency_key = any (keys) and d.idempotency_key = o.key
  returning d.idempotency_key, d.status, d.attempts, told_status(d), told_error(d);
end $$;

-- Begins pushes: claims each in its scope, and writes its deliveries with the attempts that start; nothing of that unless the
-- worker holds its lease and `erasures_planned` is what is counted behind the lock. A delivery says which push it is of (the first
-- one is 1); its recipe is a stretch of `recipes`. Then records what came of other attempts. The first row tells of the worker and
-- of the count, others which pushes were begun, with their users, or, without them, which subscription pushes are of users whom
-- another transaction is changing: they stay owed. The rest is what `record_outcomes` returns.
create function record_pushes(
  worker bigint, run bigint, run_period text, erasure_lock bigint, erasures_planned bigint,
  user_ids bigint[], kinds text[], scopes text[], leads_of_pushes integer[], marks_of_pushes integer[],
  keys text[], pushes integer[], parts integer[], parts_in_all integer[], queries integer[], leads integer[], bytes integer[],
  query_lists text[], recipes bytea, recipe_bytes integer[], started boolean[],
  of_keys text[], of_attempts integer[], oks boolean[], opens boolean[], http_statuses integer[], errors text[],
  took_ms integer[], retry_delays_ms integer[]
) returns table (live boolean, erasures bigint, push bigint, email text, receiver_key text,
  told_key text, told_status text, told_attempts integer, told_http_status integer, told_error text)
language plpgsql set enable_seqscan = off set jit = off set lock_timeout = '10s' as $$
#variable_conflict use_column
begin
  perform set_config('synchronous_commit', 'on', true) where current_setting('synchronous_commit') in ('off', 'local');
  perform pg_advisory_xact_lock_shared(erasure_lock);
  select last_value into erasures from erasure_count;
  live := exists (select from workers w where w.id = worker and w.lease_end > clock_timestamp());
  return next;
  if live and erasures = erasures_planned then
    return query
      with eligible as (
        -- a user who moved on the map meanwhile may have been planned twice
        select distinct on (p.user_id, p.kind, p.scope) p.*, u.email, u.receiver_key
        from unnest(user_ids, kinds, scopes, leads_of_pushes, marks_of_pushes) with ordinality
          as p (user_id, kind, scope, leads, mark, push)
        cross join lateral (select * from users where id = p.user_id offset 0) u
        where u.subscribed or p.kind in ('single', 'subscription')
      ),
      free as (
        -- who is being changed is not waited for: all that begins with it would wait too
        select id from users where id = any (user_ids) and 'subscription' = any (kinds) and subscription_owed_at is not null
        for no key update skip locked
      ),
      owed as (
        update users u set subscription_owed_at = null, subscription_begun_at = now()
        from eligible e join free f on f.id = e.user_id
        where u.id = any (user_ids) and u.id = e.user_id and e.kind = 'subscription' and u.subscription_owed_at is not null
        returning e.push
      ),
      claimed as (
        insert into claims (scope, email, leads, queries_mark)
        -- everybody in one order, so that no two processes wait for each other
        select scope, email, case kind when 'weekly' then leads end, case kind when 'weekly' then mark end from eligible
        where scope is not null order by scope, email
        on conflict do nothing returning scope, email
      ),
      granted as (
        select * from eligible e where case e.kind
          -- a try whose answer was lost may have begun it
          when 'single' then not exists (select from deliveries where idempotency_key = any (keys))
          when 'subscription' then e.push in (select push from owed)
          else exists (select from claimed c where c.scope = e.scope and c.email = e.email) end
      ),
      begun as (
        insert into deliveries (idempotency_key, run_id, user_id, period, kind, part, parts, queries, leads, bytes, query_list,
          recipe, status, attempts, under_way, worker_id, first_at)
        select d.key, run, g.user_id, run_period, g.kind, d.part, d.parts, d.queries, d.leads, d.bytes, d.query_list,
          substring(recipes from d.recipe_end - d.recipe_bytes + 1 for d.recipe_bytes), 'pending', d.started::integer, d.started,
          worker, case when d.started then now() end
        from (
          select d.*, sum(d.recipe_bytes) over (order by d.at)::integer as recipe_end
          from unnest(keys, pushes, record_pushes.parts, parts_in_all, record_pushes.queries, record_pushes.leads,
            record_pushes.bytes, query_lists, record_pushes.recipe_bytes, record_pushes.started)
            with ordinality as d (key, push, part, parts, queries, leads, bytes, query_list, recipe_bytes, started, at)
        ) d
        join granted g on g.push = d.push
      )
      select live, erasures, push, email, receiver_key, null, null, null::integer, null::integer, null from granted
      union all
      select live, erasures, push, null, null, null, null, null, null, null from eligible e
      where e.kind = 'subscription' and not exists (select from owed o where o.push = e.push)
        and exists (select from users where id = e.user_id and subscription_owed_at is not null offset 0);
  end if;
  if cardinality(of_keys) > 0 then
    return query select live, erasures, null::bigint, null, null, o.*
      from record_outcomes(of_keys, of_attempts, oks, opens, http_statuses, errors, took_ms, retry_delays_ms) o;
  end if;
end $$;
