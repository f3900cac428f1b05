/** `npm run prose` on Markdown. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { wrapMarkdown } from '../pages/wrap.ts'
import { documents } from '../support/markdown.ts'

test('prose is wrapped to its width, in lists below their text; all else stays as it is', () => {
  const page = [
    '# A heading that is much longer than the width',
    '',
    'One two three four five six - seven.',
    '- An item that is long, with `words in backticks`',
    '  and more words.',
    '  1. Another one beneath it.',
    '',
    '| a table | stays as it is |',
    '```sh',
    'a line of code stays as it is, however long',
    '```',
  ]
  assert.deepEqual(wrapMarkdown(page.join('\n'), 24).split('\n'), [
    page[0],
    '',
    'One two three four five',
    'six - seven.',
    '- An item that is long,',
    '  with',
    '  `words in backticks`',
    '  and more words.',
    '  1. Another one beneath',
    '     it.',
    ...page.slice(6),
  ])
})

test('the pages keep every word, fit the width, and come out of a second wrapping as out of the first', () => {
  for (const { file, lines } of documents) {
    const text = lines.join('\n')
    const once = wrapMarkdown(text, 140)
    assert.deepEqual(once.split(/\s+/), text.split(/\s+/), file)
    assert.equal(wrapMarkdown(once, 140), once, file)
  }
})
