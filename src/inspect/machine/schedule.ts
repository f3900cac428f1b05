/** Checks that this machine runs the weekly push: by a line of a crontab, or by the timer of `examples/systemd`. */
import { execFile } from 'node:child_process'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { packageRoot } from '../../base/package-root.ts'
import { type Found, note } from '../finding.ts'
import type { Check } from './check.ts'

/** `crontab` and `systemctl` run side by side, each for at most this long. */
const askMsMax = 5_000
const timer = 'leadpush-push.timer'

/** What a program prints; empty where it fails or is not there, undefined where it gave no answer in time. */
const ask = (program: string, args: readonly string[]): Promise<string | undefined> =>
  new Promise((resolve) => {
    execFile(program, args, { timeout: askMsMax, killSignal: 'SIGKILL' }, (error, stdout) =>
      resolve(error?.killed ? undefined : stdout),
    )
  })

const readIfThere = (path: string) => readFile(path, 'utf8').catch(() => '')

/** Whether a line of a crontab runs the weekly push. */
export const runsWeekly = (crontab: string): boolean =>
  crontab
    .split('\n')
    .some((line) => /^\s*[^#\s].*leadpush.*\spush\s([^;&|]*\s)?--all(?=[\s"');&|]|$)/.test(line.trimEnd()))

/** The line of `crontab.example` that runs the weekly push. */
async function findExample(): Promise<string> {
  const text = await readIfThere(join(packageRoot, 'crontab.example'))
  return /^[^#\n]*push --all.*$/m.exec(text)?.[0].replace(/\s+/g, ' ') ?? '0 6 * * 1 leadpush push --all'
}

/** Judges the jobs that cron and systemd run on this machine. `etc`: the folder of `crontab` and `cron.d`. */
export async function checkSchedule(etc: string): Promise<Found[]> {
  const listTimers = ['list-timers', '--no-pager', '--no-legend']
  const [own, ...timers] = await Promise.all([
    ask('crontab', ['-l']),
    ask('systemctl', listTimers),
    ask('systemctl', ['--user', ...listTimers]),
  ])
  const names = await readdir(join(etc, 'cron.d')).catch(() => [] as string[])
  const files = [join(etc, 'crontab'), ...names.map((name) => join(etc, 'cron.d', name))]
  const crontabs = [own ?? '', ...(await Promise.all(files.map(readIfThere)))]
  const found: Found[] = []
  if (own === undefined) {
    const what = `\`crontab -l\` gave no answer within ${askMsMax / 1_000} s, so its jobs are not known`
    found.push(note(what, 'Find out what it hangs on.'))
  }
  if (!crontabs.some(runsWeekly) && !timers.join(' ').split(/\s+/).includes(timer)) {
    const toDo = `Add a line like \`${await findExample()}\` with \`crontab -e\` (see crontab.example), unless something else runs it.`
    found.push(note('No crontab and no timer of this machine runs `leadpush push --all`', toDo))
  }
  return found
}

export const scheduleCheck: Check = {
  code: 'schedule',
  title: 'schedule',
  limitMs: askMsMax + 1_000,
  run: () => (process.platform === 'win32' ? [] : checkSchedule('/etc')),
}
