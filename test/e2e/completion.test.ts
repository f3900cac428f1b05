/** The scripts of `leadpush completion`, in the shells themselves. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { before, test } from 'node:test'
import { lacking, lackingScript } from '../support/installed.ts'
import { callProgram, cleanEnvironment, startOnTerminal, testHome } from '../support/program.ts'
import { findProgram } from '../support/scripts.ts'

const shells = ['bash', 'zsh', 'fish'] as const
type Shell = (typeof shells)[number]

const folder = join(testHome(), 'completion')
const file = (shell: Shell) => join(folder, `_leadpush.${shell}`)
const bin = join(testHome(), 'completion-bin')
const PATH = `${bin}:${process.env.PATH}`
const env = cleanEnvironment({ PATH })

before(async () => {
  mkdirSync(join(folder, 'listings of may'), { recursive: true })
  writeFileSync(join(folder, 'list.csv'), '')
  mkdirSync(bin)
  // what `npm link` makes
  writeFileSync(join(bin, 'leadpush'), `#!/bin/sh\nexec '${process.execPath}' '${findProgram()}' "$@"\n`)
  chmodSync(join(bin, 'leadpush'), 0o755)
  await Promise.all(
    shells.map(async (shell) => {
      const { code, stdout, stderr } = await callProgram(['completion', shell])
      assert.deepEqual([code, stderr], [0, ''])
      writeFileSync(file(shell), stdout)
    }),
  )
})

const run = (program: string, args: string[], input = '') => {
  const ended = spawnSync(program, args, { cwd: folder, env, input, encoding: 'utf8', timeout: 120_000 })
  assert.deepEqual([ended.status, ended.stderr], [0, ''], program)
  return ended.stdout
}

for (const shell of shells) {
  test(`${shell} finds nothing wrong with its script`, { skip: lacking(shell) }, () => {
    run(shell, ['-n', file(shell)])
  })
}

/** What is typed, words with a space between, and what is offered for the last of them; `:` stands for files. */
const offers: [typed: string, offered: string[]][] = [
  ['l', ['leads']],
  ['db ', ['path', 'url', 'stop', 'backup', 'restore', 'help']],
  ['users un', ['unsubscribe']],
  ['completion ', ['bash', 'zsh', 'fish']],
  ['help pu', ['push']],
  ['users help li', ['list']],
  ['push --a', ['--all', '--accept']],
  ['push --user user@example.com --un', ['--unknown']],
  ['push --user ', []],
  ['push --user --a', []],
  ['push --o', []],
  ['receiver --drop --del', ['--delay']],
  ['leads import --rejects li', [':']],
  ['leads import --rejects = li', [':']],
  ['leads import --map a=b list.csv li', [':']],
  ['validate li', [':']],
  ['status ', []],
  ['nosuch l', []],
]

test('commands, subcommands, options, choices and files are offered, each in its place', async () => {
  for (const [typed, offered] of offers) {
    const { stdout } = await callProgram(['completion', 'bash', '--', ...typed.split(' ')])
    assert.deepEqual(stdout.split('\n').filter(Boolean).sort(), [...offered].sort(), typed)
  }
})

/** What a shell makes of some of them. */
const shown: [typed: string, offered: string][] = [
  ['push --a', '--accept --all'],
  ['leads import --rejects li', 'list.csv listings of may'],
  ['push --user ', ''],
]

test('bash offers words and the names of files', { skip: lacking('bash') }, () => {
  const asked = [...shown, ['leads import --rejects = li', 'list.csv listings of may'] as const]
  const questions = asked.map(([line]) => {
    const words = ['leadpush', ...line.split(' ')].map((word) => `'${word}'`).join(' ')
    return `COMP_WORDS=(${words}); COMP_CWORD=$((\${#COMP_WORDS[@]} - 1)); _leadpush; printf '%s/' "\${COMPREPLY[@]}"; echo`
  })
  const answers = run('bash', ['--norc'], [`source '${file('bash')}'`, ...questions, ''].join('\n')).split('\n')
  for (const [at, [typed, offered]] of asked.entries())
    assert.equal((answers[at] ?? '').split('/').filter(Boolean).sort().join(' '), offered, typed)
})

test('fish offers the same', { skip: lacking('fish') }, () => {
  const lines = shown.map(([typed]) => `complete -C 'leadpush ${typed}'; echo ----`)
  const answers = run('fish', ['--no-config', '-c', [`source '${file('fish')}'`, ...lines].join('\n')]).split('----\n')
  for (const [at, [typed, offered]] of shown.entries()) {
    const words = (answers[at] ?? '').split('\n').map((line) => line.split('\t')[0]?.replace(/\/$/, ''))
    assert.equal(words.filter(Boolean).sort().join(' '), offered, typed)
  }
})

/** What a line becomes on a terminal when Tab is pressed at the end of each of `typed`. */
async function press(command: string, prepare: string, typed: readonly string[]): Promise<string> {
  const terminal = startOnTerminal(command, 120, { cwd: folder, env: { PATH } })
  terminal.child.stdin?.write(`told() { printf '<%s>' "$@"; echo; }; ${prepare}; echo rea''dy\n`)
  await terminal.waitFor(/ready/)
  for (const [at, line] of typed.entries()) {
    terminal.child.stdin?.write(`${line}\t\u0001told \u0005; echo do''ne${at}\n`)
    await terminal.waitFor(new RegExp(`done${at}`))
  }
  terminal.child.stdin?.end('exit\n')
  return (await terminal.done).stdout
}

const typed = ['leadpush leads imp', 'leadpush leads import listi', 'leadpush push --reju', 'leadpush push --resu']

for (const [shell, command, prepare] of [
  ['bash', 'bash --norc --noprofile -i', () => `PS1=; source '${file('bash')}'`],
  ['zsh', 'zsh -f -i', () => `PS1=; autoload -Uz compinit; compinit -u -D; source '${file('zsh')}'`],
] as const) {
  test(`on a terminal ${shell} completes a word, a file with spaces and an option`, {
    skip: lackingScript || lacking(shell),
  }, async () => {
    const output = await press(command, prepare(), typed)
    for (const words of [
      /<leadpush><leads><import>/,
      /<leadpush><leads><import><listings of may\/?>/,
      /<leadpush><push><--reju>/,
      /<leadpush><push><--resume>/,
    ])
      assert.match(output, words)
  })
}

test('a shell that it does not know is told with those that it knows', async () => {
  const { code, stderr } = await callProgram(['completion', 'tcsh'])
  assert.equal(code, 2)
  assert.match(stderr, /'tcsh' is invalid for argument 'shell'. Allowed choices are bash, zsh, fish\./)
})
