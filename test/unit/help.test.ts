/** The help of every command. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { buildWithoutRunning, commands, exampleLinesOfHelp, helpOf } from '../pages/help.ts'

// lines of up to 97 characters broke in the middle of a word on a terminal of 80
test('every --help fits a terminal of 80 columns', () => {
  const withSubcommands = buildWithoutRunning().commands.filter((one) => one.commands.length > 0)
  const all = new Set([...commands.values(), ...withSubcommands, buildWithoutRunning()])
  const lines = [...all].flatMap((command) => helpOf(command).split('\n'))
  assert.deepEqual(
    lines.filter((line) => line.length > 80),
    [],
  )
})

test('every command has an example, or more, in its --help', () => {
  const without = [...commands.keys()].filter((name) => !exampleLinesOfHelp.some((line) => line.includes(`leadpush ${name}`)))
  assert.deepEqual(without, [])
}) // biome-ignore format: one line
