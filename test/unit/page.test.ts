import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { test } from 'node:test'
import { buildDocument, buildKeyFigures, buildSection } from '../../src/inspect/page/document.ts'
import { escapeHtml, html } from '../../src/inspect/page/html.ts'
import { buildTable } from '../../src/inspect/page/table.ts'

const hostile = `<script>alert("1")</script>'&`

test('a template takes values as text, unless they are HTML already', () => {
  assert.equal(
    html`<p title="${hostile}">${[html`<b>${1}</b>`, hostile]}${false}${undefined}${null}${0}</p>`.text,
    '<p title="&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;&#39;&amp;"><b>1</b>&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;&#39;&amp;0</p>',
  )
  assert.equal(escapeHtml('a\u0000b\ud800c\td\n'), 'a\ufffdb\ufffdc\td\n')
})

test('a page lets nothing run or load, and has no style but its own, known by its hash', () => {
  const page = buildDocument({ title: hostile, header: html`<h1>${hostile}</h1>`, main: html``, footer: html`` })
  const policy =
    /http-equiv="Content-Security-Policy" content="([^"]+)"/.exec(page)?.[1]?.replaceAll('&#39;', "'") ?? ''
  const [, style = ''] = /<style>([\s\S]*?)<\/style>/.exec(page) ?? []
  const hash = createHash('sha256').update(style).digest('base64')
  assert.equal(policy, `default-src 'none'; style-src 'sha256-${hash}'; base-uri 'none'; form-action 'none'`)
  assert.doesNotMatch(page, /<script/)
  assert.doesNotMatch(page, / (src|href|style|on\w+)=/)
})

test('parts of a page escape what they are given', () => {
  const parts = [
    buildSection({ id: 'one', title: hostile, body: html`` }),
    buildKeyFigures([{ name: hostile, value: hostile, note: hostile, tone: 'bad' }]),
    buildTable({
      caption: hostile,
      columns: [{ head: hostile }, { head: hostile, isNumber: true }],
      rows: Array.from({ length: 20 }, () => [hostile, { text: hostile, tone: 'bad' as const }]),
      more: hostile,
    }),
  ]
  for (const { text } of parts) {
    assert.doesNotMatch(text, /<script/)
    assert.match(text, /&lt;script&gt;/)
  }
})

test('a table names itself and the heads of its columns and rows', () => {
  const { text } = buildTable({
    caption: 'Users',
    columns: [{ head: 'user' }, { head: 'failed', isNumber: true }],
    rows: [['user@example.com', '1,000']],
  })
  assert.match(text, /<caption class="unseen">Users<\/caption>/)
  assert.match(text, /<th scope="col" class="number">failed<\/th>/)
  assert.match(text, /<th scope="row">user@example.com<\/th><td class="number" data-head="failed">1,000<\/td>/)
})
