// One user's delivery as most would write it: rows, objects, JSON.stringify, fetch, and a row for what was sent.
import { randomUUID } from 'node:crypto'
import pg from 'pg'

const [url, databaseUrl, users] = process.argv.slice(2)

export { databaseUrl }
export const pool = new pg.Pool({ connectionString: databaseUrl, max: 16 })

export async function findUserIds() {
  const { rows } = await pool.query('select id from bench.users order by id limit $1', [users])
  return rows.map(({ id }) => id)
}

export async function pushUser(userId) {
  const { rows: users } = await pool.query('select email, receiver_key from bench.users where id = $1', [userId])
  const { rows: queries } = await pool.query(
    'select type, value, radius, places from bench.queries where user_id = $1 order by position',
    [userId],
  )
  const leads = new Map()
  for (const { places } of queries) {
    const { rows } = await pool.query(
      'select * from bench.listings where "postalCode" = any ($1) order by updated_at desc limit 300',
      [places],
    )
    for (const { updated_at: _, ...lead } of rows) if (!leads.has(lead.href)) leads.set(lead.href, lead)
  }
  const body = JSON.stringify({
    queryList: queries.map(({ type, value, radius }) => ({ type, value, radius })),
    fsbos: [...leads.values()],
  })
  const key = randomUUID()
  const response = await fetch(url, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      'x-service-api-key': users[0].receiver_key,
      'x-idempotency-key': key,
    },
    body,
  })
  await response.text()
  await pool.query('insert into bench.sent (key, user_id, leads, status) values ($1, $2, $3, $4)', [
    key,
    userId,
    leads.size,
    response.status,
  ])
  if (!response.ok) throw new Error(`HTTP ${response.status}`)
}
