/** A PostgreSQL that lives by a moved clock, can be killed, and goes with this process. */
import { chmodSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { findPaths } from '../../src/db/embedded/paths.ts'
import { findServer } from '../../src/db/embedded/postmaster.ts'
import { endQuietly, enter } from '../../src/db/embedded/presence.ts'
import { startThrowAway } from '../../src/db/embedded/throw-away.ts'
import { signal } from '../chaos/postgres.ts'
import { copyPrograms } from '../support/turning-week.ts'
import type { MovedClock } from './clock.ts'

export interface MovedPostgres {
  url: string
  /** Kills the server, and starts it again after `downMs`. */
  kill(downMs: number): Promise<void>
  leave(): Promise<void>
}

/** `folder` takes a copy of PostgreSQL's programs. */
export async function startMovedPostgres(clock: MovedClock, folder: string): Promise<MovedPostgres> {
  const { binaries } = await copyPrograms(folder)
  const program = join(binaries.folder, 'postgres')
  // the server starts with an environment of its own: a script in its place brings the clock along
  renameSync(program, `${program}-itself`)
  const variables = Object.entries(clock.env()).map(([name, value]) => `${name}='${value}'`)
  writeFileSync(program, `#!/bin/sh\nexec env ${variables.join(' ')} "$(dirname "$0")/postgres-itself" "$@"\n`)
  chmodSync(program, 0o755)
  const server = await startThrowAway({ binaries })
  const paths = await findPaths(server.home)
  return {
    url: server.url,
    async kill(downMs) {
      const pid = await findServer(paths)
      if (pid !== undefined) signal(pid, 'SIGKILL')
      await sleep(downMs)
      await endQuietly(await enter(paths, { throwAway: true, binaries }))
    },
    leave: () => server.leave(),
  }
}
