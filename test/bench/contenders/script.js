// A script: user after user, 16 at once. `node script.js URL DATABASE_URL USERS`
import { measured } from './measured.js'
import { findUserIds, pool, pushUser } from './push-user.js'

const ids = await findUserIds()
await measured(ids.length, async (next) => {
  for (let at = next(); at !== undefined; at = next()) await pushUser(ids[at])
})
await pool.end()
