/**
 * Checks that this machine runs the weekly push, by a line of a crontab or by a systemd timer named as in `examples/systemd`,
 * and that the job finds the program.
 */
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { findUserHome } from '../../base/config.ts'
import { packageRoot } from '../../base/package-root.ts'
import { runBriefly } from './brief-process.ts'
import { type Check, judge, skipped, type Trouble, type Verdict, warning } from './check.ts'
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

interface Found {
  jobs: Job[]
  troubles: Trouble[]
}

const readIfThere = (path: string) => readFile(path, 'utf8').catch(() => '')

async function findInCron({ etc, home }: JobFolders): Promise<Found> {
  const troubles: Trouble[] = []
  const listed = await runBriefly('crontab', ['-l'], askMsMax)
  if (listed === 'late') {
    const message = `\`crontab -l\` gave no answer within ${askMsMax / 1_000} s, so its jobs are not known.`
    troubles.push(warning(message, 'Find out what it hangs on.'))
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

async function findInSystemd({ unitFolders: system, home }: JobFolders): Promise<Found> {
  const list = (args: string[]) =>
    runBriefly('systemctl', [...args, 'list-timers', '--no-pager', '--no-legend'], askMsMax)
  const answers = await Promise.all([list([]), list(['--user'])])
  const active = answers.map((answer) => (typeof answer === 'string' ? '' : answer.stdout)).join('\n')
  const folders = [join(home, '.config/systemd/user'), ...system]
  const found: Found = { jobs: [], troubles: [] }
  for (const kind of jobKinds) {
    const timer = timerOf[kind] ?? ''
    const isActive = new RegExp(`(^|\\s)${timer.replace('.', '\\.')}(\\s|$)`, 'm').test(active)
    const command = await readCommand(timer.replace('.timer', '.service'), folders)
    if (isActive && (command === undefined || kindOf(command) === kind)) {
      found.jobs.push({ kind, command: command ?? '', where: timer, path: undefined, home })
    } else if (command !== undefined && kind === 'push --all') {
      const message = `${timer} is installed, and not running.`
      found.troubles.push(warning(message, `Run \`systemctl enable --now ${timer}\`.`))
    }
  }
  return found
}

/** The line of `crontab.example` that runs the weekly push. */
async function findExample(): Promise<string> {
  const text = await readIfThere(join(packageRoot, 'crontab.example'))
  return /^[^#\n]*push --all.*$/m.exec(text)?.[0].replace(/\s+/g, ' ') ?? '0 6 * * 1 leadpush push --all'
}

/** The verdict on the jobs that cron and systemd run on this machine. */
export async function checkSchedule(folders: JobFolders): Promise<Verdict> {
  const [cron, systemd] = await Promise.all([findInCron(folders), findInSystemd(folders)])
  const jobs = [...cron.jobs, ...systemd.jobs]
  const weekly = jobs.filter(({ kind }) => kind === 'push --all')
  const troubles = [...cron.troubles]
  if (weekly.length === 0) {
    troubles.push(...systemd.troubles)
    const message = 'No crontab and no timer of this machine runs `leadpush push --all`.'
    const line = await findExample()
    troubles.push(
      warning(
        message,
        `Add a line like \`${line}\` with \`crontab -e\` (see crontab.example), unless something else runs it.`,
      ),
    )
  }
  for (const job of jobs) {
    const trouble = await findJobTrouble(job)
    if (trouble !== undefined)
      troubles.push(warning(`${job.where}: the line for \`${job.kind}\` ${trouble.what}.`, trouble.toDo))
  }
  const missing = jobKinds.filter((kind) => !jobs.some((job) => job.kind === kind))
  const hint = missing.length > 0 ? `; nothing runs ${missing.join(', ')}` : ''
  return judge(`\`push --all\`: ${[...new Set(weekly.map(({ where }) => where))].join(', ')}${hint}`, troubles)
}

export const scheduleCheck: Check = {
  name: 'schedule',
  title: 'Schedule',
  limitMs: askMsMax + 1_000,
  run: async ({ source }) =>
    process.platform === 'win32'
      ? skipped('this system has no crontab')
      : await checkSchedule({ etc: '/etc', home: findUserHome(source.env) ?? '/', unitFolders }),
}
