/** The embedded database: where it is, how to connect to it, stopping it. */
import { usageError } from '../../base/errors.ts'
import { keepEmbedded, stopEmbedded } from '../../db/embedded.ts'
import type { At, ExitCode, ReadSettings } from '../describe.ts'

type AtHome = At<'databaseUrl' | 'home'>

/** The home of the embedded database. Throws `usage` if there is none. */
export function homeOf({ databaseUrl, home }: ReadSettings<'databaseUrl' | 'home'>): string {
  if (databaseUrl === undefined) return home
  throw usageError('DATABASE_URL is set: there is no embedded database.', 'Unset it to work with the embedded one.')
}

export async function printPath({ io, readSettings }: AtHome): Promise<ExitCode> {
  const path = homeOf(readSettings())
  await io.out.result({ type: 'db', path }, path)
  return 0
}

export async function printUrl({ io, readSettings }: AtHome): Promise<ExitCode> {
  const { url } = await keepEmbedded(homeOf(readSettings()))
  await io.out.result({ type: 'db', url }, url)
  return 0
}

const sentences = {
  stopped: 'Stopped.',
  'in use': 'Other commands use it: it stops with the last of them.',
  'not running': 'It was not running.',
}

export async function stop({ io, readSettings }: AtHome): Promise<ExitCode> {
  const state = await stopEmbedded(homeOf(readSettings()))
  await io.out.result({ type: 'db', state }, sentences[state])
  return 0
}
