// The same with pg-boss: a job a user, fetched 64 at a time, 16 at once. `node pg-boss.js URL DATABASE_URL USERS`
import { PgBoss } from 'pg-boss'
import { concurrency, startClock } from './measured.js'
import { databaseUrl, findUserIds, pool, pushUser } from './push-user.js'

const boss = new PgBoss({ connectionString: databaseUrl, schedule: false, supervise: false, max: 8 })
boss.on('error', (error) => {
  throw error
})
await boss.start()
await boss.deleteQueue('push').catch(() => {})
await boss.createQueue('push')
const ids = await findUserIds()
for (let at = 0; at < ids.length; at += 1_000)
  await boss.insert(
    'push',
    ids.slice(at, at + 1_000).map((userId) => ({ data: { userId }, retryLimit: 1 })),
  )

const stop = startClock()
let left = ids.length
// its own workers pause half a second between fetches: without that pause it is faster
await Promise.all(
  Array.from({ length: 2 }, async () => {
    while (left > 0) {
      const jobs = await boss.fetch('push', { batchSize: 64 })
      if (!jobs?.length) return
      const waiting = [...jobs]
      await Promise.all(
        Array.from({ length: concurrency / 2 }, async () => {
          for (let job = waiting.shift(); job; job = waiting.shift()) await pushUser(job.data.userId)
        }),
      )
      await boss.complete(
        'push',
        jobs.map(({ id }) => id),
      )
      left -= jobs.length
    }
  }),
)
stop(ids.length)
await boss.stop({ graceful: false })
await pool.end()
