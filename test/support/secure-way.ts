/** A way to a database that begins with TLS, as a PostgreSQL with `ssl = on` does. */
import { readFileSync } from 'node:fs'
import net from 'node:net'
import { join } from 'node:path'
import { after } from 'node:test'
import tls from 'node:tls'
import { packageRoot } from '../../src/base/package-root.ts'
import { listen } from './sockets.ts'
import { startWay } from './way.ts'

const certificate = (file: string) => join(packageRoot, 'test/support/certificates', file)

/** Starts it until the test is over, under the certificate in `file`; its URL has the host `localhost`. */
export async function startSecureWay(databaseUrl: string, file: string): Promise<string> {
  const identity = { key: readFileSync(certificate('localhost.key')), cert: readFileSync(certificate(file)) }
  const way = new URL((await startWay(databaseUrl)).url)
  const front = await listen(
    net.createServer((socket) => {
      socket.on('error', () => {})
      // the first message asks whether TLS is spoken
      socket.once('data', () => {
        socket.write('S')
        const near = new tls.TLSSocket(socket, { isServer: true, ...identity })
        const far = net.connect(Number(way.port), way.hostname)
        for (const [from, to] of [
          [near, far],
          [far, near],
        ] as const)
          from.on('error', () => to.destroy()).pipe(to)
      })
    }),
  )
  after(() => front.close())
  return `postgresql://${way.username}@localhost:${front.port}${way.pathname}`
}
