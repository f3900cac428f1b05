/** Counts what `users remove` would delete and end, for its `--dry-run`. */
import { sql } from 'kysely'
import type { Database } from '../../db/open.ts'
import { isPushOwed } from '../../users/users.ts'

export interface WhatGoes {
  queries: number
  /** Deliveries that have not ended. */
  pending: number
  /** A subscription push is owed and not begun. */
  owed: boolean
  integrations: number
  hooks: number
  /** Triggers that are due for the hooks. */
  triggers: number
}

export async function findWhatGoes(db: Database, userId: number): Promise<WhatGoes> {
  const hooks = sql`select h.id from hooks h join integrations i on i.id = h.integration_id where i.user_id = u.id`
  const { rows } = await sql<WhatGoes>`
      select (select count(*) from queries where user_id = u.id) as queries,
        (select count(*) from deliveries where user_id = u.id and status = 'pending') as pending,
        ${isPushOwed} as owed,
        (select count(*) from integrations where user_id = u.id) as integrations,
        (select count(*) from (${hooks}) h) as hooks,
        (select count(*) from triggers where hook_id in (${hooks})) as triggers
      from users u where u.id = ${userId}
    `.execute(db)
  return rows[0] ?? { queries: 0, pending: 0, owed: false, integrations: 0, hooks: 0, triggers: 0 }
}
