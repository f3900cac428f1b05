/**
 * Runs a page as a reader does who follows it: saves its files, types each command after a `$`, and compares what the program prints
 * with what the page shows. Times, days, ports and ids may differ; a line `…` stands for any lines.
 */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { packageRoot } from '../../src/base/package-root.ts'
import { cleanEnvironment, type StartedProgram, startProgram, testHome } from './program.ts'
import { findProgram } from './scripts.ts'

interface Block {
  /** The words after the three backticks: `console`, `console unordered`, `csv`. */
  kind: string[]
  lines: string[]
  /** The last name of a file that the prose before it has in backticks. */
  file: string | undefined
}

function readBlocks(page: string): Block[] {
  const blocks: Block[] = []
  let block: Block | undefined
  let file: string | undefined
  for (const line of readFileSync(join(packageRoot, page), 'utf8').split('\n')) {
    if (line.startsWith('```')) {
      const kind = line.slice(3).split(' ')
      block = block === undefined ? { kind, lines: [], file } : undefined
      if (block) blocks.push(block)
    } else if (block) block.lines.push(line)
    else file = [...line.matchAll(/`([\w-]+\.\w+)`/g)].at(-1)?.[1] ?? file
  }
  return blocks
}

/** Each command of a block, with the lines that the page shows below it. */
function readCommands(lines: readonly string[]): { command: string; shown: string[] }[] {
  const commands: { command: string; shown: string[] }[] = []
  for (const line of lines) {
    if (line.startsWith('$ ')) commands.push({ command: line.slice(2), shown: [] })
    else commands.at(-1)?.shown.push(line)
  }
  return commands
}

const steady = (text: string, home: string) =>
  text
    .replaceAll(home, '/home/you/.local/share/leadpush')
    .replace(/\d{4}-\d\d-\d\d/g, 'DAY')
    .replace(/\d{4}-W\d\d/g, 'WEEK')
    .replace(/\d\d:\d\d(:\d\d)?/g, 'TIME')
    .replace(/127\.0\.0\.1:\d+/g, 'RECEIVER')
    .replace(/[\d.]+ m?s\b/g, 'TIME')
    .replace(/\b[0-9a-f]{8}(-[0-9a-f-]+)?\b/g, 'ID')
    .split('\n')
    .map((line) => line.trimEnd())

function compare(shown: readonly string[], printed: string, home: string, isUnordered: boolean, what: string): void {
  // only as root an import names its database
  const seen = shown.some((line) => line.startsWith('Database: ')) ? printed : printed.replace(/^Database: .*\n/m, '')
  const actual = steady(seen.trimEnd(), home)
  const expected = steady(shown.join('\n').trimEnd(), home)
  if (isUnordered) {
    const missing = expected.filter((line) => line !== '…' && !actual.includes(line))
    assert.deepEqual(missing, [], `${what}\n${actual.join('\n')}`)
  } else if (!expected.includes('…')) assert.deepEqual(actual, expected, what)
  else {
    const pattern = expected.map((line) =>
      line === '…' ? '(.*\n)*?' : `${line.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&')}\n`,
    )
    assert.match(`${actual.join('\n')}\n`, new RegExp(`^${pattern.join('')}$`), what)
  }
}

const runLine = (line: string, folder: string, env: NodeJS.ProcessEnv): Promise<string> =>
  new Promise((done) => {
    execFile('sh', ['-c', `exec 2>&1; ${line}`], { cwd: folder, env, timeout: 120_000 }, (_, stdout) => done(stdout))
  })

/** Runs the pages one after the other, in one folder with one database. `leadpush receiver` runs until another one is started. */
export async function runPages(pages: readonly string[]): Promise<void> {
  const folder = join(testHome(), 'pages')
  const home = join(testHome(), 'pages-home')
  mkdirSync(folder)
  // what `npm link` makes
  const bin = join(folder, 'leadpush')
  writeFileSync(bin, `#!/bin/sh\nexec '${process.execPath}' '${findProgram()}' "$@"\n`)
  chmodSync(bin, 0o755)
  const settings = { LEADPUSH_HOME: home, LEADPUSH_RETRY_DELAY: '50ms' }
  const env = cleanEnvironment({ ...settings, PATH: `${folder}:${process.env.PATH}` })
  let receiver: StartedProgram | undefined
  let address = '127.0.0.1:8080'

  async function startReceiver(args: string[], shown: string[]): Promise<void> {
    const port = receiver === undefined ? '0' : (address.split(':')[1] as string)
    receiver?.kill('SIGINT')
    await receiver?.done
    receiver = startProgram([...args, '--port', port], { env: { ...settings }, timeoutMs: 300_000 })
    const [, found = ''] = await receiver.waitFor(/listening on http:\/\/(\S+)/)
    address = found
    compare(shown, receiver.stdout() + receiver.stderr(), home, false, args.join(' '))
  }

  try {
    for (const { kind, lines, file } of pages.flatMap(readBlocks)) {
      if (kind[0] === 'csv' && file !== undefined) writeFileSync(join(folder, file), `${lines.join('\n')}\n`)
      if (kind[0] !== 'console') continue
      const isUnordered = kind.includes('unordered')
      if (kind.includes('receiver')) compare(lines, receiver?.stdout() ?? '', home, isUnordered, 'the receiver')
      for (const { command, shown } of readCommands(lines)) {
        if (command.startsWith('leadpush receiver')) await startReceiver(command.split(' ').slice(1), shown)
        else if (command.startsWith('export ')) {
          const [name = '', value = ''] = command.slice(7).split('=')
          if (name !== 'LEADPUSH_HOME') env[name] = value.replace('127.0.0.1:8080', address)
        } else {
          const line = command.replace('npm ci && npm run demo', 'leadpush demo')
          compare(shown, await runLine(line, folder, env), home, isUnordered, command)
        }
      }
    }
  } finally {
    receiver?.kill('SIGINT')
    await receiver?.done
  }
}
