// Installs the packages that a checkout lacks or, with an argument, those of one of its folders; does nothing where all are
// installed. Compares versions, not times, and runs no install scripts.
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const [folder = '.'] = process.argv.slice(2)
const root = join(dirname(dirname(fileURLToPath(import.meta.url))), folder)

function readPackages(path) {
  try {
    return JSON.parse(readFileSync(join(root, path), 'utf8')).packages
  } catch {
    return {}
  }
}

/**
 * Whether this platform needs the package: an optional package is for one platform. Only npm knows which C library there is.
 */
function isWanted({ optional, os, cpu, libc }) {
  const fits = (list, here) => list === undefined || (list.includes(here) && !list.includes(`!${here}`))
  return !optional || (fits(os, process.platform) && fits(cpu, process.arch) && libc === undefined)
}

function isInstalled() {
  const installed = readPackages('node_modules/.package-lock.json')
  return Object.entries(readPackages('package-lock.json')).every(
    ([path, wanted]) => path === '' || !isWanted(wanted) || installed[path]?.version === wanted.version,
  )
}

function install() {
  console.error(`Installing what ${folder === '.' ? 'leadpush' : folder} needs (npm ci) …`)
  const args = ['ci', '--include=dev', '--include=optional', '--ignore-scripts', '--no-audit', '--no-fund']
  const npm = process.env.npm_execpath
  const [program, first] = npm ? [process.execPath, [npm]] : ['npm', []]
  const { status, error } = spawnSync(program, [...first, ...args, '--loglevel=error'], {
    cwd: root,
    stdio: ['ignore', 'ignore', 'inherit'],
    shell: !npm && process.platform === 'win32',
  })
  if (error) console.error(`npm could not be started: ${error.message}`)
  return status ?? 1
}

if (!isInstalled()) process.exitCode = install()
