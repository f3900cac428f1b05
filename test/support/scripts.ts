/** Scripts of `test/` that run as processes of their own: built with the tests, or, where a test is run by itself, as they stand. */
import { join } from 'node:path'
import { packageRoot } from '../../src/root.ts'

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
