/** The rows of the tables in `sql/`, for Kysely. A bigint is read as a number: our ids stay far below 2^53. */
import type { ColumnType, Generated, GeneratedAlways } from 'kysely'
import type { TriggerKind } from '../index.ts'

type Defaulted<T> = ColumnType<T, T | undefined, T>

/** One row type per table, by its name in SQL. */
export interface Tables {
  imports: {
    id: GeneratedAlways<number>
    file: string
    started_at: Generated<Date>
    records: Defaulted<number>
    inserted: Defaulted<number>
    updated: Defaulted<number>
    unchanged: Defaulted<number>
    rejected: Defaulted<number>
    repeated: Defaulted<number>
    erased: Defaulted<number>
    filled_fields: Defaulted<number>
    base_version_id: Defaulted<number>
  }
  leads: {
    id: GeneratedAlways<number>
    href_sha256: Buffer
    postal_key: string
    city_key: Generated<string | null>
    version_id: number
    json_sha256: Buffer
    first_import_id: number
    search: string
    house: Buffer | null
  }
  lead_seen: {
    lead_id: number
    seen_at: Date
    filled: number | null
    price_known: Defaulted<boolean>
    gone: Defaulted<boolean>
  }
  sources: { id: GeneratedAlways<number>; name: string; imported_at: Date; completed_at: Date | null }
  lead_sources: {
    lead_id: number
    source_id: number
    gone_at: Date | null
    since_import_id: Defaulted<number>
    given: Defaulted<number>
  }
  lead_events: {
    version_id: number
    import_id: number
    lead_id: number
    kind: TriggerKind | 'lead_back'
    payload: object | null
  }
  lead_versions: {
    id: number
    lead_id: number
    json: string
    bytes: GeneratedAlways<number>
    superseded_at: Date | null
    kept: string | null
    contact_name: string | null
    contact_phone: string | null
    contact_email: string | null
  }
  postal_codes: {
    code: string
    country: 'US' | 'CA'
    state: string
    city: string
    latitude: number
    longitude: number
  }
  searches: {
    id: GeneratedAlways<number>
    meaning_sha256: Buffer
    kind: 'place' | 'words' | 'both'
    places: string[] | null
    words: string | null
    resolver: number
  }
  users: {
    id: GeneratedAlways<number>
    email: string
    receiver_key: string
    subscribed: boolean
    home_key: Defaulted<string>
    due_since: Generated<Date>
    created_at: Generated<Date>
  }
  subscription_pushes: { user_id: number; owed_at: Date | null; begun_at: Date | null }
  data_keys: { id: string; wrapped: string; current: boolean; created_at: Generated<Date> }
  queries: {
    user_id: number
    position: number
    type: 'zipcode' | 'text'
    value: string
    radius: number
    hash: string
    json: string
    search_id: number
  }
  workers: {
    id: Generated<number>
    host: string
    process_id: number
    started_at: Generated<Date>
    lease_until: Date
    renewed_at: Generated<Date>
  }
  duties: { name: string; worker_id: number; since: Generated<Date>; asked: Defaulted<boolean> }
  runs: {
    id: Generated<number>
    command: 'all' | 'force' | 'resume' | 'failed' | 'user' | 'owed'
    period: string
    time_zone: string
    worker_id: number
    resumable: boolean
    started_at: Generated<Date>
    ended_at: Date | null
    outcome: Defaulted<'running' | 'complete' | 'failures' | 'stopped' | 'interrupted' | 'lost'>
    statements: Defaulted<number>
    came_to_end: Defaulted<boolean>
    pruned: Defaulted<boolean>
    listings: number | null
    filled_fields: number | null
    held_by: 'week' | 'zone' | null
    held: string | null
    held_by_answers: string | null
    accepted: Defaulted<boolean>
    held_users: Defaulted<number>
  }
  run_sources: { run_id: number; source_id: number; listings: number; filled_fields: number | null }
  forced_scopes: { period: string; run_id: number; is_over: Defaulted<boolean> }
  user_ranges: {
    worker_id: number
    scope: string
    first_home_key: string
    first_user_id: number
    last_home_key: string
    last_user_id: number
  }
  claims: {
    scope: string
    email: string
    claimed_at: Generated<Date>
    leads: number | null
    queries_mark: number | null
  }
  deliveries: {
    idempotency_key: string
    run_id: number
    user_id: number
    period: string
    kind: 'weekly' | 'forced' | 'single' | 'subscription'
    part: number
    parts: number
    queries: number
    leads: number
    bytes: number
    query_list: string
    recipe: Buffer
    created_at: Generated<Date>
    status: 'pending' | 'delivered' | 'failed' | 'unknown'
    attempts: number
    under_way: boolean
    gzip: Defaulted<boolean>
    worker_id: number | null
    due_at: Generated<Date>
    first_at: Date | null
    first_ms: number | null
    first_status: number | null
    first_error: string | null
    first_maybe_arrived: Defaulted<boolean>
    second_at: Date | null
    second_ms: number | null
    second_status: number | null
    second_error: string | null
    second_maybe_arrived: Defaulted<boolean>
    end_reason: string | null
    doubtful: Defaulted<boolean>
  }
  answers: { idempotency_key: string; attempt: number; answer: string }
  receivers: {
    url_sha256: Buffer
    trouble: 'down' | 'refuses' | 'asks' | null
    trouble_since: Date | null
    refused_status: number | null
    tries: Defaulted<number>
    next_at: Generated<Date>
    second_at: Date | null
    well_at: Date | null
    well_by: number | null
    paused_until: Date | null
    rate: number | null
    rate_at: Date | null
    takes_gzip: Defaulted<boolean>
    refused_gzip_at: Date | null
  }
  integrations: {
    id: GeneratedAlways<number>
    user_id: number
    api_key_sha256: Buffer
    signing_secret: string
    created_at: Generated<Date>
    previous_api_key_sha256: Buffer | null
    previous_signing_secret: string | null
    previous_until: Date | null
  }
  hooks: {
    id: Generated<string>
    integration_id: number
    url: string
    url_sha256: Buffer
    created_at: Generated<Date>
    triggers: Defaulted<TriggerKind[]>
    looked_import_id: number
    last_at: Date | null
    last_status: number | null
    last_error: string | null
    failures: Defaulted<number>
    paused_until: Date | null
    abandoned: Defaulted<number>
    abandoned_at: Date | null
    abandoned_error: string | null
    dropped: Defaulted<number>
    dropped_at: Date | null
    failing_since: Date | null
    off_since: Date | null
  }
  lost_triggers: {
    id: GeneratedAlways<number>
    hook_id: string
    kind: TriggerKind
    lost_at: Generated<Date>
    dropped: Defaulted<boolean>
    lead_ids: number[]
    version_ids: number[]
    occurred_at: Date[]
    payloads: (Record<string, number> | null)[]
  }
  triggers: {
    hook_id: string
    version_id: number
    kind: TriggerKind
    lead_id: number
    payload: Record<string, number> | null
    occurred_at: Date
    due_at: Date
    attempts: Defaulted<number>
    failing_since: Date | null
    worker_id: number | null
    last_error: string | null
  }
  hook_answers: { hook_id: string; lead_id: number; answer: string; said_at: Generated<Date> }
  erasure_key: { key: Buffer }
  erasures: {
    mark: Buffer
    kind: 'href' | 'contact' | 'email' | 'phone' | 'user'
    erased_at: Generated<Date>
    redacts: Defaulted<boolean>
    found: Defaulted<boolean>
    list_mark: Buffer | null
  }
  work_items: { id: string; mark: Buffer | null }
  erased_deliveries: { worker_id: number; idempotency_key: string }
}
