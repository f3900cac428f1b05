/**
 * Runs the app of examples/zapier under Zapier's test library, in a process of its own because that library replaces
 * `http.request` and `fetch` for all. Takes `{ path, bundle }` from its parent, and answers with the result of the function
 * at `path`.
 */
import { createRequire } from 'node:module'

const require = createRequire(new URL('../../examples/zapier/index.js', import.meta.url))
const zapier = require('zapier-platform-core')
const app = require('./index.js')
const test = zapier.createAppTester(app)

async function answer({ path, bundle }) {
  if (path === 'validate') return { results: (await zapier.createAppHandler(app)({ command: 'validate' })).results }
  const found = path.split('.').reduce((part, name) => part[name], app)
  return { results: typeof found === 'function' ? await test(found, bundle) : found }
}

process.on('message', async (message) => {
  process.send(await answer(message).catch(({ name, message }) => ({ error: { name, message } })))
})
