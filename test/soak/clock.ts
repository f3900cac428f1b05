/**
 * A clock that the soak moves: libfaketime shifts the wall clock of the processes that preload it. Their monotonic clocks stay as
 * they are, so timers and timeouts run as ever.
 */
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const libraries = [
  '/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1',
  '/usr/lib/aarch64-linux-gnu/faketime/libfaketime.so.1',
  '/usr/lib/faketime/libfaketime.so.1',
  '/usr/local/lib/faketime/libfaketime.so.1',
]

export class MovedClock {
  private readonly library: string
  private readonly file: string
  private shiftMs = 0

  /** `folder` takes the file that tells processes how far the clock is shifted. Throws where libfaketime is not installed. */
  constructor(folder: string) {
    const library = libraries.find((path) => existsSync(path))
    if (library === undefined) throw new Error('the soak needs libfaketime (Debian: apt-get install faketime)')
    this.library = library
    this.file = join(folder, 'clock')
    this.set(new Date())
  }

  get now(): Date {
    return new Date(Date.now() + this.shiftMs)
  }

  /** From now on it is `time`, also for processes that run already. */
  set(time: Date): void {
    this.shiftMs = time.getTime() - Date.now()
    writeFileSync(this.file, `${(this.shiftMs / 1_000).toFixed(3).replace(/^(?!-)/, '+')}\n`, { mode: 0o644 })
  }

  /** The variables of a process that lives by this clock; `aheadMs`: its own is wrong by so much. */
  env(aheadMs = 0): Record<string, string> {
    const preload = { LD_PRELOAD: this.library, FAKETIME_DONT_FAKE_MONOTONIC: '1' }
    if (aheadMs === 0) return { ...preload, FAKETIME_TIMESTAMP_FILE: this.file, FAKETIME_NO_CACHE: '1' }
    return { ...preload, FAKETIME: `+${((this.shiftMs + aheadMs) / 1_000).toFixed(3)}`.replace('+-', '-') }
  }
}
