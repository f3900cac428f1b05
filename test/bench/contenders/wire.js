// What the bare network costs: undici posts bodies that were built beforehand, 16 at once. Nothing is looked up, recorded or
// built. `node wire.js URL FOLDER COUNT`: the bodies are the files of the folder, each used as often as it takes.
import { randomUUID } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Agent, request } from 'undici'
import { concurrency, measured } from './measured.js'

const [url, folder, count] = process.argv.slice(2)
const bodies = readdirSync(folder).map((name) => readFileSync(join(folder, name)))
const dispatcher = new Agent({ connections: concurrency })

await measured(Number(count), async (next) => {
  for (let at = next(); at !== undefined; at = next()) {
    const { statusCode, body } = await request(url, {
      method: 'POST',
      dispatcher,
      headers: {
        'content-type': 'application/json',
        'x-service-api-key': `key-${at}`,
        'x-idempotency-key': randomUUID(),
      },
      body: bodies[at % bodies.length],
    })
    await body.dump()
    if (statusCode !== 200) throw new Error(`HTTP ${statusCode}`)
  }
})
await dispatcher.close()
