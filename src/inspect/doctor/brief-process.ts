/** Another program, run for its words: bounded in time and in what is kept of it, whatever it starts itself. */
import { spawn } from 'node:child_process'

const keptCharsMax = 1_000_000

export type Ran = { code: number | null; stdout: string } | 'absent' | 'late'

/** Standard output and exit code; `absent` where there is no such program, `late` where it was ended. Never throws. */
export function runBriefly(program: string, args: readonly string[], timeoutMs: number): Promise<Ran> {
  return new Promise((resolve) => {
    // a group of its own: what it starts ends with it
    const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'ignore'], detached: true })
    let stdout = ''
    const end = (ran: Ran) => {
      clearTimeout(timer)
      child.stdout.destroy()
      resolve(ran)
    }
    const timer = setTimeout(() => {
      try {
        process.kill(-(child.pid ?? 0), 'SIGKILL')
      } catch {} // it ended by itself
      end('late')
    }, timeoutMs)
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      if (stdout.length < keptCharsMax) stdout += text
    })
    child.on('error', () => end('absent'))
    child.on('close', (code) => end({ code, stdout }))
  })
}
