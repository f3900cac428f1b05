// The same with graphile-worker, a job a user, 16 at once. `node graphile-worker.js URL DATABASE_URL USERS`
import { Logger, run, runMigrations } from 'graphile-worker'
import { concurrency, startClock } from './measured.js'
import { findUserIds, pool, pushUser } from './push-user.js'

const logger = new Logger(() => () => {})
await runMigrations({ pgPool: pool, logger })
const ids = await findUserIds()
await pool.query(
  `select graphile_worker.add_job('push', json_build_object('userId', id), max_attempts => 2) from unnest($1::bigint[]) as u (id)`,
  [ids],
)
const stop = startClock()
let left = ids.length
let end
const done = new Promise((resolve) => {
  end = resolve
})
const runner = await run({
  pgPool: pool,
  logger,
  concurrency,
  noHandleSignals: true,
  taskList: {
    push: async ({ userId }) => {
      await pushUser(userId)
      if (--left === 0) end()
    },
  },
})
await done
stop(ids.length)
await runner.stop()
await pool.end()
