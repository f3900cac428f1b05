/** Handles a terminal that closes under the process. */
import { closeSync, openSync, readFileSync, readlinkSync } from 'node:fs'
import { isatty } from 'node:tty'
import { isNamedNohup } from '../base/terminal.ts'
import type { Environment } from './io.ts'

const parent = (name: string) => readFileSync(`/proc/${process.ppid}/${name}`, 'latin1')

const signs: readonly ((env: Environment) => boolean)[] = [
  // in the parent's environment too, the name would be of something else
  (env) => isNamedNohup(env) && !/(^|\0)_=[^\0]*nohup(\0|$)/.test(parent('environ')),
  // in the place of a terminal `nohup` gives it an end of /dev/null that cannot be read
  () =>
    readlinkSync('/proc/self/fd/0') === '/dev/null' &&
    /^flags:\s*[0-7]*1$/m.test(readFileSync('/proc/self/fdinfo/0', 'latin1')),
  // a script that runs under it hands it down
  () => (BigInt(`0x${/^SigIgn:\s*([0-9a-f]+)$/m.exec(parent('status'))?.[1] ?? '0'}`) & 1n) === 1n,
]

/**
 * Whether whoever started this process wants it to outlive its terminal. `nohup` says so by ignoring SIGHUP, but Node.js sets
 * all signals back before a line of a program runs, so that only what else can be seen on Linux tells; elsewhere nothing does.
 */
export const ignoresHangups = (env: Environment): boolean =>
  signs.some((sign) => {
    try {
      return sign(env)
    } catch {
      return false
    }
  })

export function hasTerminal(): boolean {
  try {
    closeSync(openSync('/dev/tty', 'r'))
    return true
  } catch {
    return false
  }
}

/** At its end Node.js sets the terminals that it began with back to what they were, and aborts where one of them is gone. */
export function closeLostTerminals(): void {
  const terminals = [0, 1, 2].filter((descriptor) => isatty(descriptor))
  process.on('exit', () => {
    for (const descriptor of terminals) {
      try {
        if (!isatty(descriptor)) closeSync(descriptor)
      } catch {} // closed before
    }
  })
}
