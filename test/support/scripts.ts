/**
 * Finds the program and the scripts of `test/` that run as processes: the built ones of a test run, or the sources where a
 * test runs by itself.
 */
import { join } from 'node:path'
import { packageRoot } from '../../src/base/package-root.ts'

/** The environment variable with the folder of built tests. */
export const buildVariable = 'TEST_BUILD'

export const scripts = [
  'support/embedded-visitor.ts',
  'support/import-process.ts',
  'chaos-cluster/chaos-cluster.ts',
  'chaos/chaos.ts',
  'chaos/receiver.ts',
  'chaos/serve.ts',
  'simulate/simulate.ts',
] as const

/** The arguments with which Node.js starts. */
export function findScript(name: (typeof scripts)[number]): { file: string; execArgv: string[] } {
  const folder = process.env[buildVariable]
  if (folder) return { file: join(folder, name.replace(/ts$/, 'js')), execArgv: [] }
  return { file: join(packageRoot, 'test', name), execArgv: ['--import', 'tsx'] }
}

/** The environment variable with the path of the built program. */
export const programVariable = 'TEST_PROGRAM'

/** The program that `bin/leadpush.js` would start; finding it there takes a look through all sources each time. */
export const findProgram = () => process.env[programVariable] ?? join(packageRoot, 'bin', 'leadpush.js')
