/** A client of `pg` that leaves nothing behind when it cannot connect, and does not try for longer than it was given. */
import type { EventEmitter } from 'node:events'
import type { Socket } from 'node:net'
import pg from 'pg'
import { SilentDatabase } from './away.ts'

/** The connection beneath a client, which pg's types do not show. */
export const connectionOf = (client: pg.ClientBase) =>
  (client as unknown as { connection: EventEmitter & { stream: Socket; ssl: unknown } }).connection

/** The socket of a client. */
export const streamOf = (client: pg.ClientBase) => connectionOf(client).stream

/** Connects within `connectMsMax`, or throws and closes the socket: pg itself may leave it open without a password. */
export class BoundedClient extends pg.Client {
  private readonly connectMsMax: number

  constructor(config: pg.ClientConfig, connectMsMax: number) {
    super(config)
    this.connectMsMax = connectMsMax
  }

  async open(): Promise<void> {
    let timer: NodeJS.Timeout | undefined
    let fail: (error: Error) => void = () => {}
    try {
      await new Promise<void>((resolve, reject) => {
        fail = reject
        // pg tells some trouble with a password by this event alone
        this.once('error', fail)
        timer = setTimeout(() => reject(new SilentDatabase(this.connectMsMax)), this.connectMsMax)
        super.connect((error: Error | null) => (error ? reject(error) : resolve()))
      })
    } catch (error) {
      this.on('error', () => {})
      streamOf(this as pg.ClientBase).destroy()
      throw error
    } finally {
      clearTimeout(timer)
      this.off('error', fail)
    }
  }

  /** Ends the connection, also where nobody answers; no process waits for that. */
  leave(): void {
    const stream = streamOf(this as pg.ClientBase)
    stream.unref()
    stream.setTimeout(this.connectMsMax, () => stream.destroy())
    this.end().catch(() => {})
  }
}
