/** One user with what they are owed and their last deliveries. Never the receiver key. */
import { sql } from 'kysely'
import type { Database } from '../../db/open.ts'
import { findPeriod } from '../../deliveries/runs.ts'
import { findIntegrations, type ListedIntegration } from '../../integrations/integrations.ts'
import { toReason } from '../../push/hold.ts'
import type { Query } from '../../users/query.ts'
import { findUser } from '../../users/users.ts'
import { findTurn } from '../explain/explain.ts'
import { findUserDeliveries, type UserDelivery } from '../status/user-deliveries.ts'

/** The newest deliveries that are shown, and the most integrations. */
const deliveriesShown = 20
const integrationsShown = 100

export interface UserFacts {
  email: string
  subscribed: boolean
  createdAt: Date
  queries: Query[]
  period: string
  /** When the weekly delivery of the period was begun; null: there is none yet. */
  servedAt: Date | null
  /** The delivery that the user is owed; null: none. */
  owed: 'weekly' | 'subscription' | null
  /** Why a whole weekly push is held back, and this user with it. */
  held: string | null
  /** The newest ones. */
  deliveries: UserDelivery[]
  moreDeliveries: boolean
  integrations: Omit<ListedIntegration, 'user'>[]
}

export interface UserFactsSettings {
  timeZone: string
  maxLeadAgeMs: number
  guard: 'on' | 'off'
  keepAnswers: 'on' | 'off'
}

/** Throws `usage` if there is no such user. */
export async function findUserFacts(db: Database, email: string, settings: UserFactsSettings): Promise<UserFacts> {
  const { user, subscribed, owed: owesSubscription } = await findUser(db, email)
  const { rows } = await sql<{ createdAt: Date; queries: Query[] }>`
      select u.created_at as "createdAt", coalesce((
        select json_agg(json_build_object('type', q.type, 'value', q.value, 'radius', q.radius) order by q.position)
        from queries q where q.user_id = u.id), '[]') as queries
      from users u where u.id = ${user.id}
    `.execute(db)
  const { createdAt, queries } = rows[0] ?? { createdAt: new Date(0), queries: [] }
  const { period } = await findPeriod(db, settings)
  const { servedAt, next, heldRun } = await findTurn(db, user, period, settings)
  const deliveries: UserDelivery[] = []
  for await (const delivery of findUserDeliveries(db, user.id, settings.keepAnswers)) {
    deliveries.push(delivery)
    if (deliveries.length > deliveriesShown) break
  }
  const integrations: UserFacts['integrations'] = []
  for await (const { user: _, ...integration } of findIntegrations(db, user.id)) {
    integrations.push(integration)
    if (integrations.length === integrationsShown) break
  }
  return {
    ...{ email: user.email, subscribed, createdAt, queries, period, servedAt },
    owed: owesSubscription && queries.length > 0 ? 'subscription' : next ? 'weekly' : null,
    held: heldRun ? toReason(heldRun) : null,
    deliveries: deliveries.slice(0, deliveriesShown),
    moreDeliveries: deliveries.length > deliveriesShown,
    integrations,
  }
}
