import assert from 'node:assert/strict'
import { test } from 'node:test'
import { wrap } from '../../src/cli/output.ts'
import { escapeControls, lineBreak } from '../../src/cli/painted.ts'

test('text that was painted keeps its marks where it is wrapped, and what looks like one is spelt out', () => {
  // `users show` wrapped painted text, and printed the escape sequences as words
  const sealed = lineBreak.slice(2, -1)
  assert.equal(escapeControls(wrap(`one${lineBreak}two`, 2)), 'one\ntwo')
  assert.equal(escapeControls(wrap(`\u001b[31mone\u001b[${sealed}1m`, 2)), `\\u001b[31mone\\u001b[${sealed}1m`)
})
