import assert from 'node:assert/strict'
import { test } from 'node:test'
import { findAccessibilityProblems, findOverflow, withoutBrowser, withPage } from '../support/browser.ts'
import { writeInput } from '../support/import-files.ts'

const skip = withoutBrowser
const document = (name: string, head: string, body: string) =>
  writeInput(
    name,
    `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Page</title>${head}</head><main><h1>Page</h1>${body}</main></html>`,
  )

test('a page is seen as it is asked for; what is too wide, or not for everybody to read, is found', {
  skip,
}, async () => {
  const dark = '<style>@media (prefers-color-scheme: dark) { body { background: #000; color: #fff } }</style>'
  const good = document('good.html', dark, '<p>Text')
  await withPage(good, { width: 390, height: 800, colorScheme: 'dark' }, async (page) => {
    assert.equal(await page.evaluate('innerWidth'), 390)
    assert.equal(await page.evaluate('getComputedStyle(document.body).backgroundColor'), 'rgb(0, 0, 0)')
    assert.equal(await findOverflow(page), 0)
    assert.deepEqual(await findAccessibilityProblems(page), [])
  })
  const bad = document('bad.html', '', '<div style="width: 800px">Wide</div><input><p style="color: #ccc">Pale')
  await withPage(bad, { width: 390 }, async (page) => {
    assert.ok((await findOverflow(page)) > 400)
    assert.match((await findAccessibilityProblems(page)).join('\n'), /^color-contrast [\s\S]*^label /m)
  })
})

test('a page that throws, complains, asks for anything or breaks its own policy fails its test', { skip }, async () => {
  const body = `<script>console.error('told')</script><script>throw new Error('broken')</script>
    <link rel="stylesheet" href="other.css"><img alt="" src="http://127.0.0.1:9/a.png">`
  const policy = `<meta http-equiv="Content-Security-Policy" content="object-src 'none'; frame-src 'none'">`
  const path = document('faulty.html', policy, `${body}<iframe title="" src="about.html"></iframe>`)
  const faults = [
    /error: broken/,
    /console: told/,
    /request: http:\/\/127/,
    /request: file:.*other\.css/,
    /policy: frame-src/,
  ]
  await assert.rejects(
    withPage(path, {}, (page) => page.waitForTimeout(50)),
    ({ message }: Error) => {
      for (const fault of faults) assert.match(message, fault)
      return true
    },
  )
})
