/**
 * Programs of the system that some tests need. A test whose program is missing is skipped, and says so; with REQUIRE_ALL=1, as `.ci/run`
 * sets it, it runs and fails.
 */
import { accessSync, constants, existsSync } from 'node:fs'
import { delimiter, join } from 'node:path'

const isRequired = process.env.REQUIRE_ALL === '1'

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}

/** Daemons are in /usr/sbin, which the PATH of many users lacks. */
const folders = [...(process.env.PATH ?? '').split(delimiter).filter(Boolean), '/usr/sbin']

/** The path of the first of `names` that is installed; of a name with a slash, the path itself. */
export const findInstalled = (...names: string[]): string | undefined =>
  names
    .flatMap((name) => (name.includes('/') ? [name] : folders.map((folder) => join(folder, name))))
    .find((path) => existsSync(path) && isExecutable(path))

/** For the option `skip` of a test that needs one of `names`. */
export const lacking = (...names: string[]): string | false =>
  !isRequired && findInstalled(...names) === undefined && `there is no ${names[0]} here`

/** The `script` of Linux, which runs a program on a terminal of its own; that of other systems takes other options. */
export const lackingScript: string | false =
  process.platform === 'linux' ? lacking('script') : 'only the `script` of Linux is known'
