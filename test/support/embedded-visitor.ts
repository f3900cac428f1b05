/**
 * A process that uses an embedded server, for tests that kill one. `embedded-visitor.ts HOME` enters, prints `in`, and leaves
 * when its input ends; with `throw-away` as HOME it prints where its throw-away server is.
 */
import { once } from 'node:events'
import { startThrowAway } from '../../src/db/embedded/throw-away.ts'
import { enterEmbedded } from '../../src/db/embedded.ts'

const home = process.argv[2] ?? ''
const server = home === 'throw-away' ? await startThrowAway() : await enterEmbedded(home, { create: true })
console.log(`in ${server.home}`)
process.stdin.resume()
await once(process.stdin, 'end')
await server.leave()
console.log('left')
