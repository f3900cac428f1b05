/** Handles a terminal that closes under the process. */
import { closeSync, openSync, readFileSync, readlinkSync } from 'node:fs'
import { isatty } from 'node:tty'
import { isNamedNohup } from '../base/terminal.ts'
import type { Environment } from './io.ts'

const parent = (name: string) => readFileSync(`/proc/${process.ppid}/${name}`, 'latin1')

const signs: readonly ((env: Environment) => boolean)[] = [
  // if the parent has the name in its environment too, it has another meaning
  (env) => isNamedNohup(env) && !/(^|\0)_=[^\0]*nohup(\0|$)/.test(parent('environ')),
  // `nohup` replaces a terminal by an end of /dev/null that cannot be read
  () =>
    readlinkSync('/proc/self/fd/0') === '/dev/null' &&
    /^flags:\s*[0-7]*1$/m.test(readFileSync('/proc/self/fdinfo/0', 'latin1')),
  // a script under `nohup` passes it on
  () => (BigInt(`0x${/^SigIgn:\s*([0-9a-f]+)$/m.exec(parent('status'))?.[1] ?? '0'}`) & 1n) === 1n,
]

/**
 * Whether this process is meant to outlive its terminal. `nohup` says so by ignoring SIGHUP, but Node.js resets all signals before a line
 * of a program runs. On Linux other traces of `nohup` tell it; elsewhere nothing does.
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

/** When Node.js exits, it restores the terminals that it began with, and aborts if one of them is gone. */
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
