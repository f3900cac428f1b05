/**
 * Runs test files in one process, one after the other, each as a suite: the start of a process, and code that V8 has not compiled yet, take
 * more of the processor than most files. A file's own `after` belongs to its suite, as it would to a file that runs by itself.
 */
import { AsyncResource } from 'node:async_hooks'
import { after, describe } from 'node:test'
import { leaveHome } from './program.ts'
// what these make is shared by all files of the process, and ends with it
import './import-files.ts'
import './push-house.ts'

/** A suite that is made here is in no other. */
const outside = new AsyncResource('outside of suites')

/** `load` by the names of files: imports the file, which registers its tests. */
export function gatherFiles(load: Record<string, () => Promise<unknown>>): void {
  const left = Object.entries(load)
  const goOn = () => {
    const [name, loadFile] = left.shift() ?? []
    if (!name || !loadFile) return
    leaveHome()
    outside.runInAsyncScope(() =>
      describe(name, async () => {
        await loadFile().catch((error: unknown) => {
          goOn()
          throw error
        })
        after(goOn)
      }),
    )
  }
  process.on('exit', () => {
    if (left.length === 0) return
    console.error(`not run: ${left.map(([name]) => name).join(', ')}`)
    process.exitCode = 1
  })
  goOn()
}
