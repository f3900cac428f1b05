/** The commands, options and settings that pages, examples and `--help` name: the program takes each. */
import { definitions } from '../../../src/base/config.ts'
import { LeadpushError } from '../../../src/base/errors.ts'
import { documents, findRows, manual, readExamples, spansOf } from '../../support/markdown.ts'
import { buildWithoutRunning, commands, exampleLinesOfHelp, hasOption } from '../help.ts'
import { type Finding, foundAt } from './finding.ts'

const examples = readExamples()

/** The words of the command that a text begins with, `leadpush` or not. */
function commandOf(text: string): string | undefined {
  const words = text.replace(/^(leadpush|node bin\/leadpush\.js) /, '').split(' ')
  return [2, 1].map((count) => words.slice(0, count).join(' ')).find((name) => commands.has(name))
}

const optionsIn = (text: string) => [...text.matchAll(/(?<![\w-])--[a-z][a-z-]*/g)].map(([option]) => option)

/** The arguments of each `leadpush` on a line of shell. */
function callsIn(line: string): string[][] {
  const bare = line
    .replace(/\s\d?>+\s*\S+/g, ' ')
    .replace(/\s# .*/, '')
    .replace(/\s<\s*\S+/g, ' ')
  const calls = bare.matchAll(/(?:^|[\s"(`]|\/bin\/)leadpush ((?:"[^"]*"|'[^']*'|[^|;&)"'`\\])*)/g)
  return [...calls].map(([, args = '']) =>
    [...args.matchAll(/"([^"]*)"|'([^']*)'|\S+/g)].map(([word, double, single]) => double ?? single ?? word),
  )
}

async function findRefusal(args: string[]): Promise<string | undefined> {
  try {
    await buildWithoutRunning().exitOverride().parseAsync(args, { from: 'user' })
    return undefined
  } catch (error) {
    // a text may name a command that wants an option
    if (error instanceof LeadpushError && commands.has(args.join(' '))) return undefined
    return (error as { exitCode: number }).exitCode === 0 ? undefined : (error as Error).message
  }
}

/** Every command line is one that the program takes. */
export async function* checkCalls(): AsyncIterable<Finding> {
  const sources = [...documents, ...examples, { file: '--help', lines: exampleLinesOfHelp, code: exampleLinesOfHelp }]
  for (const { file, lines, code } of sources) {
    for (const line of code.filter((one) => !/^\s*#/.test(one))) {
      for (const args of callsIn(line)) {
        const why = await findRefusal(args)
        if (why === undefined) continue
        const text = `show a command that the program takes, not leadpush ${args.join(' ')}: ${why}`
        yield { file, line: lines.findIndex((one) => one.includes(line)) + 1, text }
      }
    }
  }
}

/** What stands in backticks is a command and an option that there is; what the program prints may be anything. */
export function* checkNames(): Iterable<Finding> {
  const printed = new Set(findRows(manual, 'it prints').flatMap(([cell = '']) => spansOf(cell)))
  const isCommand = (span: string) =>
    commandOf(span) !== undefined || buildWithoutRunning().commands.some((one) => span === `leadpush ${one.name()}`)
  for (const document of documents) {
    for (const span of document.prose.flatMap(spansOf).filter((one) => !printed.has(one))) {
      const command = commandOf(span)
      if (/^leadpush [a-z]/.test(span) && !isCommand(span))
        yield foundAt(document, span, `name a command that there is, not ${span}`)
      if (command === undefined && !span.startsWith('--')) continue
      const wrong = optionsIn(span).filter((option) => !hasOption(command, option) && option !== '--processes')
      for (const option of wrong) yield foundAt(document, span, `name an option that there is, not ${option}`)
    }
  }
}

export function* checkSettingNames(): Iterable<Finding> {
  const names = new Set<string>(Object.values(definitions).map(({ name }) => name))
  for (const { file, lines } of [...documents, ...examples]) {
    for (const [at, line] of lines.entries()) {
      for (const [name] of line.matchAll(/LEADPUSH_[A-Z_]*[A-Z]/g)) {
        if (names.has(name.replace(/_FILE$/, ''))) continue
        yield { file, line: at + 1, text: `name a setting that there is, not ${name}` }
      }
    }
  }
}
