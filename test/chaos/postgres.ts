/**
 * A PostgreSQL for breaking: on disk as a real one is (fsync on), killed and started again at will, its sessions killed,
 * ended or frozen. It goes with this process, however that ends.
 */
import { appendFile, writeFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { findPaths } from '../../src/db/embedded/paths.ts'
import { findServer } from '../../src/db/embedded/postmaster.ts'
import { endQuietly, enter } from '../../src/db/embedded/presence.ts'
import { startThrowAway } from '../../src/db/embedded/throw-away.ts'

export interface BreakablePostgres {
  /** Of the database with this name. */
  url(database: string): string
  /** SIGKILL for the server, whose sessions then end by themselves; a new one after so many milliseconds, or with the end of `down`. */
  kill(down: number | Promise<void>): Promise<void>
  /** Starts it again as a standby, which follows nobody. */
  demote(): Promise<void>
  leave(): Promise<void>
}

/** As `signal`, where the process is still there. */
export function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name)
  } catch {}
}

/** `more` are lines of its configuration, which win. */
export async function startPostgres(more = ''): Promise<BreakablePostgres> {
  const server = await startThrowAway()
  const paths = await findPaths(server.home)
  const start = async () => endQuietly(await enter(paths, { throwAway: true }))
  const kill = async (down: number | Promise<void>) => {
    const pid = await findServer(paths)
    if (pid !== undefined) signal(pid, 'SIGKILL')
    await (typeof down === 'number' ? sleep(down) : down)
    await start()
  }
  const demote = async () => {
    await writeFile(`${paths.data}/standby.signal`, '')
    await kill(0)
  }
  await appendFile(
    `${paths.data}/postgresql.conf`,
    `fsync = on\nsynchronous_commit = on\nfull_page_writes = on\nwal_sync_method = fdatasync\n${more}\n`,
  )
  await kill(0)
  return { url: (name) => server.url.replace(/[^/]*$/, name), kill, demote, leave: () => server.leave() }
}
