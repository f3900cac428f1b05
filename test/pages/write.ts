/** `npm run pages` writes the generated parts of all pages, `npm run prose` wraps the lines of all prose. Both print what they changed. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { packageRoot } from '../../src/base/package-root.ts'
import { documents } from '../support/markdown.ts'
import { fillPage } from './generated.ts'
import { wrapMarkdown } from './wrap.ts'

const isProse = process.argv.includes('--prose')

for (const { file } of documents) {
  const path = join(packageRoot, file)
  const before = readFileSync(path, 'utf8')
  const after = isProse ? wrapMarkdown(before, 140) : fillPage(before)
  if (after === before) continue
  writeFileSync(path, after)
  console.log(file)
}
