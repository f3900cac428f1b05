/** Finds the lines of a crontab that run leadpush, as cron reads them, and checks that the files they name exist. */
import { constants } from 'node:fs'
import { access, open } from 'node:fs/promises'
import { isAbsolute, join } from 'node:path'
import type { Finding } from '../finding.ts'

export const jobKinds = ['push --all', 'push --resume', 'trigger', 'prune'] as const
export type JobKind = (typeof jobKinds)[number]

/** A line of a crontab, or a systemd timer, that runs leadpush. */
export interface Job {
  kind: JobKind
  command: string
  /** The crontab's file, or the timer. */
  where: string
  /** The PATH of the job; undefined: cron's default. */
  path: string | undefined
  home: string
}

const pathOfCron = '/usr/bin:/bin'

/** The job of leadpush that a shell command runs; undefined if it runs another program. */
export function kindOf(command: string): JobKind | undefined {
  if (!/leadpush/.test(command)) return undefined
  return jobKinds.find((kind) => {
    const [word = '', flag = ''] = kind.split(' ')
    return new RegExp(`\\s${word}(?=[\\s"')]|$)[^;&|]*${flag && `\\s${flag}(?=[\\s"');&|]|$)`}`).test(command)
  })
}

/** Finds the jobs of a crontab. `namesUser`: its lines name a user before the command, as those of /etc/crontab do. */
export function findCronJobs(
  text: string,
  { where, namesUser, home }: { where: string; namesUser: boolean; home: string },
): Job[] {
  const jobs: Job[] = []
  let path = pathOfCron
  for (const line of text.split('\n').map((each) => each.trim())) {
    if (line === '' || line.startsWith('#')) continue
    const [, name, value] = /^(\w+)\s*=\s*(.*)$/.exec(line) ?? []
    if (name !== undefined) {
      if (name === 'PATH') path = (value ?? '').replace(/^(["'])(.*)\1$/, '$2')
      continue
    }
    const user = namesUser ? '\\S+\\s+' : ''
    const [, command] = new RegExp(`^(?:@\\w+|(?:\\S+\\s+){4}\\S+)\\s+${user}(.*)$`).exec(line) ?? []
    const kind = command === undefined ? undefined : kindOf(command)
    if (command !== undefined && kind !== undefined) jobs.push({ kind, command, where, path, home })
  }
  return jobs
}

const isThere = (path: string, mode: number) =>
  access(path, mode).then(
    () => true,
    () => false,
  )

async function findInPath(name: string, path: string): Promise<string | undefined> {
  for (const folder of path.split(':')) {
    const candidate = join(folder, name)
    if (isAbsolute(folder) && (await isThere(candidate, constants.X_OK))) return candidate
  }
  return undefined
}

/** Whether the file begins with `#!/usr/bin/env node`, so that Node.js must be in PATH. */
async function needsNode(path: string): Promise<boolean> {
  const file = await open(path)
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(64), 0, 64, 0)
    return /^#!\S*env\s+node\b/.test(buffer.subarray(0, bytesRead).toString('latin1'))
  } finally {
    await file.close()
  }
}

/** Programs that resolve paths in an environment of their own: such jobs cannot be judged. */
const wrappers = /(^|[\s/;&|(])(docker|podman|kubectl|ssh|npx|npm|nix|flatpak|snap|chroot|nsenter|systemd-run)\s/

/** The file that the job would not find, and what to do; undefined if all files exist, or the job cannot be judged. */
export async function findJobTrouble(job: Job): Promise<Pick<Finding, 'what' | 'toDo'> | undefined> {
  const { command, path = pathOfCron, home } = job
  if (wrappers.test(command)) return undefined
  const words = command.split(/[\s"'`;&|()]+|\$\(/).filter((word) => word !== '')
  const at = words.findIndex((word) => /(^|\/)leadpush(\.js)?$/.test(word))
  const word = words[at]
  // a script of the operator's, or a name that only a shell can expand
  if (word === undefined || /[$~*?]/.test(word)) return undefined
  const folder = /\bcd\s+["']?([^\s"'&;]+)["']?\s*(?:&&|;)/.exec(command)?.[1]
  if (folder !== undefined && /[$~]/.test(folder)) return undefined
  const program = word.includes('/')
    ? isAbsolute(word)
      ? word
      : join(folder ?? home, word)
    : await findInPath(word, path)
  if (program === undefined) {
    return {
      what: `does not find ${word}: no folder of its PATH (${path}) has it`,
      toDo: `Write PATH=… above the line, with the folder of ${word} in it, or the whole path into the line.`,
    }
  }
  if (!(await isThere(program, constants.R_OK))) {
    return { what: `names ${program}, which is not there`, toDo: 'Correct the path in the line.' }
  }
  const node =
    words.slice(0, at).find((each) => /(^|\/)node$/.test(each)) ?? ((await needsNode(program)) ? 'node' : undefined)
  if (node === undefined) return undefined
  const isFound = isAbsolute(node) ? await isThere(node, constants.X_OK) : (await findInPath(node, path)) !== undefined
  if (isFound) return undefined
  return {
    what: `does not find Node.js (${node}${isAbsolute(node) ? '' : `, in ${path}`})`,
    toDo: 'Write PATH=… above the line, with the folder of node in it.',
  }
}
