/** A TCP address in front of a database server, as HAProxy is: it can refuse, be silent, and follow another server. */
import net from 'node:net'
import { listen } from '../support/sockets.ts'

export class Front {
  readonly port: number
  private readonly close: () => Promise<void>
  /** Both ends of each connection. */
  private readonly connections = new Set<{ near: net.Socket; far: net.Socket }>()
  private target: number
  private mode: 'open' | 'refuses' | 'silent' = 'open'

  private constructor(target: number, port: number, close: () => Promise<void>) {
    this.target = target
    this.port = port
    this.close = close
  }

  /** Leads to port `target` of this machine. */
  static async start(target: number): Promise<Front> {
    const accept = { connection: (near: net.Socket): void => void near.destroy() }
    const { port, close } = await listen(net.createServer((near) => accept.connection(near)))
    const front = new Front(target, port, close)
    accept.connection = (near) => front.accept(near)
    return front
  }

  private accept(near: net.Socket): void {
    near.on('error', () => {})
    // what came is never read, and nothing is answered: only the client's own patience ends it
    if (this.mode === 'silent') {
      near.on('end', () => near.destroy()).resume()
      return
    }
    if (this.mode === 'refuses') {
      near.resetAndDestroy()
      return
    }
    const far = net.connect(this.target, '127.0.0.1')
    const connection = { near, far }
    this.connections.add(connection)
    for (const socket of [near, far]) {
      socket.setNoDelay(true)
      socket.on('error', () => {})
      socket.on('close', () => {
        // a silent address does not tell that the other end has gone
        if (this.connections.delete(connection)) for (const each of [near, far]) each.destroy()
      })
    }
    near.pipe(far)
    far.pipe(near)
  }

  /** Breaks every connection, and each that comes. */
  refuse(): void {
    this.mode = 'refuses'
    for (const { near, far } of this.connections) {
      near.resetAndDestroy()
      far.destroy()
    }
  }

  /** Passes nothing any more, on old connections for good; nobody is told. */
  silence(): void {
    this.mode = 'silent'
    for (const connection of this.connections) {
      this.connections.delete(connection)
      const { near, far } = connection
      near.unpipe()
      far.unpipe()
      near.on('end', () => near.destroy()).resume()
      // the server's end stays open too: what was asked last may still be carried out there
      far.resume()
      near.on('close', () => far.destroy())
    }
  }

  /** Connections that begin now lead to `target`. */
  open(target: number): void {
    this.target = target
    this.mode = 'open'
  }

  leave(): Promise<void> {
    return this.close()
  }
}
