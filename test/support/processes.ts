/** Which process of a test run has which of the built test files, and in which order they begin. */
import { writeFileSync } from 'node:fs'
import { basename, join, relative } from 'node:path'
import { pathToFileURL } from 'node:url'

/** These files take longest, most of them waiting; begun late, they would be waited for alone. */
const longest = [
  'simulation',
  'ledger-model',
  'push-away',
  'silent-copy',
  'push',
  'deliveries',
  'trigger',
  'trigger-trouble',
  'receiver-trouble',
  'push-interrupted',
  'serve-pushes',
  'users-import',
  'guard',
  'push-overlap',
  'pages-trouble',
  'compression',
  'attempt',
  'machine-checks',
  'look-for-leads',
  'trigger-pace',
  'misbehaving-hooks',
  'embedded',
  'backup-program',
  'cluster',
  'chaos',
]

/** `e2e/push.test` of a test file and of the built one: newer Node.js name the former, others the latter. */
export const nameShort = (path: string) =>
  path
    .replace(/\.[jt]s$/, '')
    .split(/[\\/]/)
    .slice(-2)
    .join('/')

/** The name of a test file or script in the folder of the built ones: the runner goes by the order of names. */
export function nameBuilt(file: string): string {
  const name = relative('test', file).replace(/\.ts$/, '')
  const at = longest.indexOf(basename(file, '.test.ts'))
  return name.endsWith('.test') ? join(String(at < 0 ? longest.length : at).padStart(2, '0'), name) : name
}

/** Each file of `test/unit` takes less time than the start of a process for it. */
const unitProcesses = 3
const isQuick = (file: string) => file.startsWith(join('test', 'unit')) && !longest.includes(basename(file, '.test.ts'))

/** The files of these folders run one after the other in few processes, the longest first in each. */
const databaseProcesses = 12
const usesDatabase = (file: string) =>
  file.startsWith(join('test', 'integration')) || file.startsWith(join('test', 'e2e'))
/** The script that runs gathered files in order. */
export const gatherer = join('test', 'support', 'gather-files.ts')

/** `count` files of the runner, named after `name`, that together run `files`. `write`: the text of one that runs some of them. */
function gather(
  files: readonly string[],
  count: number,
  { folder, name, write }: { folder: string; name: string; write: (some: readonly string[]) => string },
): string[] {
  return Array.from({ length: Math.min(count, files.length) }, (_, at) => {
    const path = join(folder, `${name}-${String(at + 1).padStart(2, '0')}.test.js`)
    writeFileSync(path, write(files.filter((_, nth) => nth % count === at)))
    return path
  })
}

/** The built files for the runner, which starts a process for each; a few of them run many. A pattern of names would skip whole suites. */
export function gatherBuilt(files: readonly string[], options: readonly string[], folder: string): string[] {
  const built = (file: string) => join(folder, `${nameBuilt(file)}.js`)
  const urlOf = (file: string) => JSON.stringify(pathToFileURL(built(file)))
  const quick = files.filter(isQuick)
  const units = gather(quick, unitProcesses, {
    ...{ folder, name: 'units' },
    write: (some) => some.map((file) => `import ${urlOf(file)}\n`).join(''),
  })
  const using = files.filter(usesDatabase).sort((a, b) => (nameBuilt(a) < nameBuilt(b) ? -1 : 1))
  const gathered = options.length === 0 && using.length > databaseProcesses ? using : []
  const databases = gather(gathered, databaseProcesses, {
    ...{ folder, name: 'databases' },
    write: (some) => {
      const loads = some.map((file) => `${JSON.stringify(nameShort(file))}: () => import(${urlOf(file)}),\n`)
      return `import { gatherFiles } from ${urlOf(gatherer)}\ngatherFiles({\n${loads.join('')}})\n`
    },
  })
  const others = files.filter((file) => !isQuick(file) && !gathered.includes(file))
  return [...databases, ...units, ...others.map(built)]
}
