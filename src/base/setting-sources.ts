/** The sources of settings below the flags: the environment, `.env` in the working directory, and the files that NAME_FILE names. */
import { existsSync, lstatSync, type Stats } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { parseEnv } from 'node:util'
import { closest, distance } from 'fastest-levenshtein'
import { codeOf, messageOf } from './errors.ts'
import { isOwnFile } from './owners.ts'
import { readSmallFile } from './small-file.ts'

export interface Sourced {
  text: string
  from: 'environment' | '.env'
}

const isOurs = (name: string) => name.startsWith('LEADPUSH_') || name === 'DATABASE_URL' || name === 'DATABASE_URL_FILE'

function nearest(name: string, known: ReadonlySet<string>): string {
  const found = closest(name, [...known])
  return distance(name, found) <= 6 ? `; did you mean ${found}?` : ''
}

const writableByOthers = 0o022

/**
 * Throws if another user has, or may have, put the file or a link to it there: `.env` is obeyed in any folder where a command runs, and
 * could send keys and leads to that user.
 */
function refuseStrange(found: Stats, link: Stats): void {
  const why = 'in a shared folder it could send keys and leads elsewhere'
  const stranger = [found, link].find((each) => !isOwnFile(each))
  if (stranger) throw new Error(`it belongs to another user (${stranger.uid}); ${why}: chown it, or take it away`)
  if ((found.isFile() || found.isFIFO()) && (found.mode & writableByOthers) !== 0)
    throw new Error(`other users may write to it; ${why}: run \`chmod go-w .env\``)
}

type Environment = Readonly<Record<string, string | undefined>>

interface DotEnv {
  values: Environment
  /** Why it cannot be read. */
  problem: string | undefined
}

function parseDotEnv(path: string): DotEnv {
  try {
    return {
      values: parseEnv(readSmallFile(path, undefined, (found) => refuseStrange(found, lstatSync(path)))),
      problem: undefined,
    }
  } catch (error) {
    const problem = codeOf(error) === 'ENOENT' ? undefined : `.env: cannot be read: ${messageOf(error)}`
    return { values: {}, problem }
  }
}

/** By the environment of a command and by path: a command asks several times, and a pipe can be read once. */
const dotEnvs = new WeakMap<Environment, Map<string, DotEnv>>()

/** The content of `.env` in the folder, when the command first asked. */
export function readDotEnv({ env, cwd }: { env: Environment; cwd: string }, problems: string[]): Environment {
  const path = join(cwd, '.env')
  const found = dotEnvs.get(env)?.get(path) ?? parseDotEnv(path)
  dotEnvs.set(env, (dotEnvs.get(env) ?? new Map()).set(path, found))
  if (found.problem !== undefined) problems.push(found.problem)
  return found.values
}

/**
 * The environment, filled in by `.env` if the environment sets neither NAME nor NAME_FILE. Names that are not `known` become problems.
 */
export function mergeSources(
  { env, cwd }: { env: Environment; cwd: string },
  known: ReadonlySet<string>,
  problems: string[],
): Map<string, Sourced> {
  const merged = new Map<string, Sourced>()
  const environment = Object.entries(env).filter(([name]) => isOurs(name))
  for (const [name, text] of environment) if (text) merged.set(name, { text, from: 'environment' })
  const baseOf = (name: string) => (known.has(name) ? name : name.replace(/_FILE$/, ''))
  const said = new Set([...merged.keys()].map(baseOf))
  const dotEnv = Object.entries(readDotEnv({ env, cwd }, problems)).filter(([name]) => isOurs(name))
  for (const [name, text] of dotEnv) if (text && !said.has(baseOf(name))) merged.set(name, { text, from: '.env' })

  for (const name of new Set([...environment, ...dotEnv].map(([name]) => name))) {
    if (!known.has(baseOf(name))) problems.push(`${name}: there is no such setting${nearest(name, known)}`)
  }
  return merged
}

/** A key in base64 may begin with a slash; a URL may have lost its scheme. */
const looksSecret = (text: string) => /^[\w+/-]{43}=?$|\/\/|@/.test(text)

/**
 * Whether the text is plainly the name of a file, and so not the secret itself, written where its file belongs: it begins as a path,
 * it or its folder exists, or it is a short word.
 */
function isPlainlyPath(text: string, cwd: string): boolean {
  if (existsSync(resolve(cwd, text))) return true
  if (looksSecret(text)) return false
  if (/^(\.{0,2}|~\w*)\//.test(text) || /^[a-z._-]{1,30}$/.test(text)) return true
  const folder = dirname(text)
  return folder !== '.' && existsSync(resolve(cwd, folder))
}

/**
 * The value of NAME, or the content of the file that NAME_FILE names; undefined if it is empty, or with a problem. `isSecret`: the
 * problem shows the value of NAME_FILE only if that is plainly a path.
 */
export function readSettingValue(
  name: string,
  merged: ReadonlyMap<string, Sourced>,
  { cwd, isSecret }: { cwd: string; isSecret: boolean },
  problems: string[],
): string | undefined {
  const path = merged.get(`${name}_FILE`)?.text
  if (path === undefined) return merged.get(name)?.text
  if (merged.has(name)) {
    problems.push(`${name}, ${name}_FILE: both are set; set one of them`)
    return undefined
  }
  try {
    return readSmallFile(resolve(cwd, path)).trim() || undefined
  } catch (error) {
    const isShown = !isSecret || isPlainlyPath(path, cwd)
    const holds = isShown
      ? `${JSON.stringify(path)}, which`
      : 'no name of a file (it is not shown, as it may be the secret itself):'
    problems.push(`${name}_FILE: holds ${holds} cannot be read (${codeOf(error) ?? messageOf(error)})`)
    return undefined
  }
}
