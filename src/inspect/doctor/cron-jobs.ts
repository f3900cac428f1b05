/** Lines of a crontab that run leadpush, as cron reads them, and whether what they name is there. */
import { constants } from 'node:fs'
import { access, open } from 'node:fs/promises'
import { isAbsolute, join } from 'node:path'

export const jobKinds = ['push --all', 'push --resume', 'trigger', 'prune'] as const
export type JobKind = (typeof jobKinds)[number]

export interface Job {
  kind: JobKind
  command: string
  /** The crontab's file, or the timer. */
  where: string
  /** The folders that programs are looked for in; undefined where that is not cron's affair. */
  path: string | undefined
  home: string
}

const pathOfCron = '/usr/bin:/bin'

/** What a command of a shell does, if it is leadpush that it runs. */
export function kindOf(command: string): JobKind | undefined {
  if (!/leadpush/.test(command)) return undefined
  return jobKinds.find((kind) => {
    const [word = '', flag = ''] = kind.split(' ')
    return new RegExp(`\\s${word}(?=[\\s"')]|$)[^;&|]*${flag && `\\s${flag}(?=[\\s"');&|]|$)`}`).test(command)
  })
}

/** `namesUser`: the lines have a user before the command, as those of the system do. */
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

/** Whether `env` looks for Node.js to run it. */
async function needsNode(path: string): Promise<boolean> {
  const file = await open(path)
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(64), 0, 64, 0)
    return /^#!\S*env\s+node\b/.test(buffer.subarray(0, bytesRead).toString('latin1'))
  } finally {
    await file.close()
  }
}

/** Of others than a shell only they know what a path means. */
const wrappers = /(^|[\s/;&|(])(docker|podman|kubectl|ssh|npx|npm|nix|flatpak|snap|chroot|nsenter|systemd-run)\s/

/** What the job would not find, and what to do; undefined where all is there, or where that cannot be told. */
export async function findJobTrouble(job: Job): Promise<{ what: string; toDo: string } | undefined> {
  const { command, path = pathOfCron, home } = job
  if (wrappers.test(command)) return undefined
  const words = command.split(/[\s"'`;&|()]+|\$\(/).filter((word) => word !== '')
  const at = words.findIndex((word) => /(^|\/)leadpush(\.js)?$/.test(word))
  const word = words[at]
  // a script of theirs, or a name that only a shell can tell
  if (word === undefined || /[$~*?]/.test(word)) return undefined
  const folder = /\bcd\s+["']?([^\s"'&;]+)["']?\s*(?:&&|;)/.exec(command)?.[1]
  if (folder !== undefined && /[$~]/.test(folder)) return undefined
  const program = word.includes('/')
    ? isAbsolute(word) ? word : join(folder ?? home, word)
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
  const node = words.slice(0, at).find((each) => /(^|\/)node$/.test(each)) ?? ((await needsNode(program)) ? 'node' : undefined)
  if (node === undefined) return undefined
  const isFound = isAbsolute(node) ? await isThere(node, constants.X_OK) : (await findInPath(node, path)) !== undefined
  if (isFound) return undefined
  return {
    what: `does not find Node.js (${node}${isAbsolute(node) ? '' : `, in ${path}`})`,
    toDo: 'Write PATH=… above the line, with the folder of node in it.',
  }
} // biome-ignore format: conditions in a row
