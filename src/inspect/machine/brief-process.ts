/** Runs another program for its output. Time and output are bounded, and its child processes end with it. */
import { spawn } from 'node:child_process'

const keptCharsMax = 1_000_000

export type Ran = { code: number | null; stdout: string } | 'absent' | 'late'

/** Standard output and exit code. `absent`: there is no such program; `late`: it took too long and was ended. Never throws. */
export function runBriefly(program: string, args: readonly string[], timeoutMs: number): Promise<Ran> {
  return new Promise((resolve) => {
    // a process group of its own: its children end with it
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
