/** Checks that this machine runs the weekly push: by a line of a crontab that finds the program, or by the timer of `examples/systemd`. */
import { execFile } from 'node:child_process'
import { constants } from 'node:fs'
import { access, readdir, readFile } from 'node:fs/promises'
import { isAbsolute, join } from 'node:path'
import { packageRoot } from '../../base/package-root.ts'
import { type Found, note } from '../finding.ts'
import type { Check } from './check.ts'

/** `crontab` and `systemctl` run side by side, each for at most this long. */
const askMsMax = 5_000
const timer = 'leadpush-push.timer'
const pathOfCron = '/usr/bin:/bin'

/** What a program prints; empty where it fails or is not there, undefined where it gave no answer in time. */
const ask = (program: string, args: readonly string[]): Promise<string | undefined> =>
  new Promise((resolve) => {
    execFile(program, args, { timeout: askMsMax, killSignal: 'SIGKILL' }, (error, stdout) =>
      resolve(error?.killed ? undefined : stdout),
    )
  })

const isThere = (path: string) =>
  access(path, constants.R_OK).then(
    () => true,
    () => false,
  )
const readIfThere = (path: string) => readFile(path, 'utf8').catch(() => '')

/** A line of a crontab that runs the weekly push. */
interface Job {
  where: string
  command: string
  /** The PATH that the crontab sets above it. */
  path: string
}

/** The lines of a crontab that run the weekly push. */
export function findJobs(text: string, where: string): Job[] {
  let path = pathOfCron
  const jobs: Job[] = []
  for (const line of text.split('\n').map((each) => each.trim())) {
    const [, value] = /^PATH\s*=\s*(.*)$/.exec(line) ?? []
    if (value !== undefined) path = value.replace(/^(["'])(.*)\1$/, '$2')
    else if (/^[^#].*leadpush.*\spush\s([^;&|]*\s)?--all(?=[\s"');&|]|$)/.test(line)) {
      jobs.push({ where, command: line, path })
    }
  }
  return jobs
}

/** Programs that resolve paths in an environment of their own: such lines cannot be judged. */
const wrappers = /(^|[\s/;&|(])(docker|podman|kubectl|ssh|npx|npm|nix|flatpak|snap|chroot|nsenter|systemd-run)\s/

/** Why the line would not find the program; undefined where it does, or only a shell or another program can tell. */
export async function findJobTrouble({ command, path }: Job): Promise<string | undefined> {
  const words = command.split(/[\s"'`;&|()]+|\$\(/)
  const word = words.slice(0, words.indexOf('push')).findLast((each) => /(^|\/)leadpush(\.js)?$/.test(each))
  if (word === undefined || /[$~*?]/.test(word) || wrappers.test(command)) return undefined
  if (isAbsolute(word)) return (await isThere(word)) ? undefined : `names ${word}, which is not there`
  if (word.includes('/')) return undefined
  for (const folder of path.split(':')) if (await isThere(join(folder, word))) return undefined
  return `does not find ${word}: no folder of its PATH (${path}) has it`
}

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
  const names = (await readdir(join(etc, 'cron.d')).catch(() => [] as string[])).sort()
  const jobs = findJobs(own ?? '', 'the crontab of this user')
  for (const file of [join(etc, 'crontab'), ...names.map((name) => join(etc, 'cron.d', name))])
    jobs.push(...findJobs(await readIfThere(file), file))
  const found: Found[] = []
  if (own === undefined) {
    const what = `\`crontab -l\` gave no answer within ${askMsMax / 1_000} s, so its jobs are not known`
    found.push(note(what, 'Find out what it hangs on.'))
  }
  if (jobs.length === 0 && !timers.join(' ').split(/\s+/).includes(timer)) {
    const toDo = `Add a line like \`${await findExample()}\` with \`crontab -e\` (see crontab.example), unless something else runs it.`
    found.push(note('No crontab and no timer of this machine runs `leadpush push --all`', toDo))
  }
  for (const job of jobs) {
    const trouble = await findJobTrouble(job)
    const toDo = 'Write the whole path of leadpush into the line, or above it PATH=… with its folder.'
    if (trouble) found.push(note(`${job.where}: the line for \`push --all\` ${trouble}`, toDo))
  }
  return found
}

export const scheduleCheck: Check = {
  code: 'schedule',
  title: 'schedule',
  limitMs: askMsMax + 1_000,
  run: () => (process.platform === 'win32' ? [] : checkSchedule('/etc')),
}
