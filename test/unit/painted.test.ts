import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Output } from '../../src/cli/output.ts'
import { escapeControls, lineBreak } from '../../src/cli/painted.ts'

test('text that was painted keeps its marks where it is wrapped, and what looks like one is spelt out', () => {
  // `users show` wrapped painted text, and printed the escape sequences as words
  const out = new Output({ env: {}, stdout: process.stdout, onExit: () => () => {} })
  const shown = (text: string) => escapeControls(out.wrap(text, 2), true)
  const sealed = lineBreak.slice(2, -1)
  assert.equal(shown(`one${lineBreak}two`), 'one\ntwo')
  assert.equal(shown(`\u001b[31mone\u001b[${sealed}1m`), `\\u001b[31mone\\u001b[${sealed}1m`)
})
