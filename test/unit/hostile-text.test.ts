/** Text of a file that somebody hostile wrote, where it goes on into a shell, a spreadsheet or a terminal. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { test } from 'node:test'
import fc from 'fast-check'
import { toCell, toGuardedCell } from '../../src/base/csv-cell.ts'
import { LeadpushError } from '../../src/base/errors.ts'
import { spellOut } from '../../src/base/printable.ts'
import { quoteWord } from '../../src/base/shell-word.ts'
import { fitting } from '../../src/records/lack.ts'
import { ObjectSplitter } from '../../src/records/split-object.ts'
import { parseUser } from '../../src/users/user.ts'

/** The words that a shell makes of a command. */
function wordsOf(command: string): string[] {
  const { stdout } = spawnSync('/bin/sh', ['-c', `printf '%s\\0' ${command}`], { encoding: 'utf8' })
  return stdout.split('\0').slice(0, -1)
}

const hostile = fc
  .string({ unit: fc.constantFrom(...`'"\\$\`;&|<>()[]{}*?!~# \n\tabcé`), minLength: 1, maxLength: 20 })
  .filter((text) => text.isWellFormed())

test('any text is one word of a shell, quoted', () => {
  fc.assert(
    fc.property(hostile, (text) => assert.deepEqual(wordsOf(quoteWord(text)), [text])),
    { numRuns: 100 },
  )
})

// A member named `z'; touch …; '` was a command in the hint.
test('names from a file stay within one word of the command that a message proposes', () => {
  fc.assert(
    fc.property(hostile, (name) => {
      const proposed = fitting('leadpush users import FILE')(new Map([['email', name]]))
      assert.deepEqual(wordsOf(proposed), ['leadpush', 'users', 'import', 'FILE', '--map', `email=${name}`])
      const splitter = new ObjectSplitter()
      const text = JSON.stringify({ first: [{ a: 1 }], [`2${name}`]: [{ b: 1 }] })
      assert.throws(
        () => [...splitter.push(Buffer.from(text)), ...splitter.end()],
        (error) => {
          assert.ok(error instanceof LeadpushError)
          const command = /jq .*(?= FILE \| leadpush leads import -$)/s.exec(error.hint ?? '')?.[0] ?? ''
          assert.deepEqual(wordsOf(command), ['jq', `.[${JSON.stringify(`2${name}`)}]`])
          return true
        },
      )
    }),
    { numRuns: 100 },
  )
})

test('a cell that a spreadsheet would run begins with an apostrophe; any other is as it was', () => {
  for (const text of ['=1+1|x!A1', '+1', '-1', '@x', '\tx']) assert.equal(toGuardedCell(text), `'${text}`)
  assert.equal(toGuardedCell('=a,"b"'), `"'=a,""b"""`)
  assert.equal(toGuardedCell('\rx'), `"'\rx"`)
  for (const text of ['', 'a', ' =1', "'=1"]) assert.equal(toGuardedCell(text), text)
  assert.equal(toCell('=1'), '=1')
})

test('a formula is no e-mail address', () => {
  const parse = (email: string) => parseUser({ email }, { add() {} } as never)
  assert.deepEqual(parse('=1+1|x!A1@x.example'), { path: 'email', message: 'must be an e-mail address' })
  assert.ok('user' in parse('a=b+c-d@x.example'))
})

// Two names that differ by one of them looked alike on a terminal.
test('what a terminal shows as nothing is spelt out', () => {
  for (const [text, shown] of [
    ['a\u200bb', 'a\\u200bb'], ['\u3164', '\\u3164'], ['\u{e0041}', '\\udb40\\udc41'], ['\u00ad', '\\u00ad'], ['\u034f', '\\u034f'],
    ['\u202e', '\\u202e'], ['\u001b[31m', '\\u001b[31m'], ['é 😀', 'é 😀'],
  ] as const) assert.equal(spellOut(text), shown) // biome-ignore format: a list
})
