/** The program and scripts of `test/`, which run as processes of their own: as built for the run, or, where a test is run by itself, as they stand. */
import { join } from 'node:path'
import { packageRoot } from '../../src/base/package-root.ts'

/** Names the folder of the built tests. */
export const buildVariable = 'TEST_BUILD'

export const scripts = [
  'support/embedded-visitor.ts',
  'support/import-process.ts',
  'chaos/chaos.ts',
  'chaos/receiver.ts',
  'chaos/serve.ts',
] as const

/** What Node.js is to be started with. */
export function findScript(name: (typeof scripts)[number]): { file: string; execArgv: string[] } {
  const folder = process.env[buildVariable]
  if (folder) return { file: join(folder, name.replace(/ts$/, 'js')), execArgv: [] }
  return { file: join(packageRoot, 'test', name), execArgv: ['--import', 'tsx'] }
}

/** Names the built program. */
export const programVariable = 'TEST_PROGRAM'

/** What the door would start: it looks through all sources first, each time. */
export const findProgram = () => process.env[programVariable] ?? join(packageRoot, 'bin', 'leadpush.js')
