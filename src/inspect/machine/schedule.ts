/**
 * Checks that this machine runs the weekly push, by a line of a crontab or by a systemd timer named as in `examples/systemd`,
 * and that the job finds the program.
 */
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { findUserHome } from '../../base/config.ts'
import { packageRoot } from '../../base/package-root.ts'
import { type Found, note } from '../finding.ts'
import { runBriefly } from './brief-process.ts'
import type { Check } from './check.ts'
import { findCronJobs, findJobTrouble, type Job, type JobKind, jobKinds, kindOf } from './cron-jobs.ts'

/** `crontab` and `systemctl` run side by side, each for at most this long. */
const askMsMax = 5_000
const unitFolders = [
  '/etc/systemd/system',
  '/run/systemd/system',
  '/usr/local/lib/systemd/system',
  '/usr/lib/systemd/system',
  '/lib/systemd/system',
]

/** The folders in which jobs are looked for; tests have their own. */
export interface JobFolders {
  /** The folder of `crontab` and `cron.d`. */
  etc: string
  home: string
  unitFolders: readonly string[]
}

interface Jobs {
  jobs: Job[]
  troubles: Found[]
}

const readIfThere = (path: string) => readFile(path, 'utf8').catch(() => '')

async function findInCron({ etc, home }: JobFolders): Promise<Jobs> {
  const troubles: Found[] = []
  const listed = await runBriefly('crontab', ['-l'], askMsMax)
  if (listed === 'late') {
    const what = `\`crontab -l\` gave no answer within ${askMsMax / 1_000} s, so its jobs are not known`
    troubles.push(note(what, 'Find out what it hangs on.'))
  }
  const own = typeof listed === 'string' ? '' : listed.stdout
  const names = (await readdir(join(etc, 'cron.d')).catch(() => [] as string[])).sort()
  const files = [join(etc, 'crontab'), ...names.map((name) => join(etc, 'cron.d', name))]
  const texts = await Promise.all(files.map(readIfThere))
  const jobs = [
    ...findCronJobs(own, { where: 'the crontab of this user', namesUser: false, home }),
    ...texts.flatMap((text, at) => findCronJobs(text, { where: files[at] ?? '', namesUser: true, home })),
  ]
  return { jobs, troubles }
}

const timerOf: Partial<Record<JobKind, string>> = {
  'push --all': 'leadpush-push.timer',
  'push --resume': 'leadpush-resume.timer',
  trigger: 'leadpush-trigger.timer',
  prune: 'leadpush-prune.timer',
}

/** The `ExecStart` of a unit, from the first of `folders` that has the unit. */
async function readCommand(unit: string, folders: readonly string[]): Promise<string | undefined> {
  for (const folder of folders) {
    const text = await readIfThere(join(folder, unit))
    const command = /^ExecStart=[-@:+!]*(.*)$/m.exec(text)?.[1]
    if (command !== undefined) return command
  }
  return undefined
}

async function findInSystemd({ unitFolders: system, home }: JobFolders): Promise<Jobs> {
  const list = (args: string[]) =>
    runBriefly('systemctl', [...args, 'list-timers', '--no-pager', '--no-legend'], askMsMax)
  const answers = await Promise.all([list([]), list(['--user'])])
  const active = answers.map((answer) => (typeof answer === 'string' ? '' : answer.stdout)).join('\n')
  const folders = [join(home, '.config/systemd/user'), ...system]
  const found: Jobs = { jobs: [], troubles: [] }
  for (const kind of jobKinds) {
    const timer = timerOf[kind] ?? ''
    const isActive = new RegExp(`(^|\\s)${timer.replace('.', '\\.')}(\\s|$)`, 'm').test(active)
    const command = await readCommand(timer.replace('.timer', '.service'), folders)
    if (isActive && (command === undefined || kindOf(command) === kind)) {
      found.jobs.push({ kind, command: command ?? '', where: timer, path: undefined, home })
    } else if (command !== undefined && kind === 'push --all') {
      found.troubles.push(note(`${timer} is installed, and not running`, `Run \`systemctl enable --now ${timer}\`.`))
    }
  }
  return found
}

/** The line of `crontab.example` that runs the weekly push. */
async function findExample(): Promise<string> {
  const text = await readIfThere(join(packageRoot, 'crontab.example'))
  return /^[^#\n]*push --all.*$/m.exec(text)?.[0].replace(/\s+/g, ' ') ?? '0 6 * * 1 leadpush push --all'
}

/** Judges the jobs that cron and systemd run on this machine. */
export async function checkSchedule(folders: JobFolders): Promise<Found[]> {
  const [cron, systemd] = await Promise.all([findInCron(folders), findInSystemd(folders)])
  const jobs = [...cron.jobs, ...systemd.jobs]
  const found = [...cron.troubles]
  if (!jobs.some(({ kind }) => kind === 'push --all')) {
    const toDo = `Add a line like \`${await findExample()}\` with \`crontab -e\` (see crontab.example), unless something else runs it.`
    found.push(...systemd.troubles, note('No crontab and no timer of this machine runs `leadpush push --all`', toDo))
  }
  for (const job of jobs) {
    const trouble = await findJobTrouble(job)
    if (trouble) found.push(note(`${job.where}: the line for \`${job.kind}\` ${trouble.what}`, trouble.toDo))
  }
  return found
}

export const scheduleCheck: Check = {
  code: 'schedule',
  title: 'Schedule',
  limitMs: askMsMax + 1_000,
  run: ({ source }) =>
    process.platform === 'win32'
      ? []
      : checkSchedule({ etc: '/etc', home: findUserHome(source.env) ?? '/', unitFolders }),
}
