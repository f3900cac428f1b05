/**
 * `npm run pages` writes the generated parts of all pages, `npm run prose` wraps the lines of all prose, or
 * of that of the files that it is given. Both print what they changed.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { packageRoot } from '../../src/base/package-root.ts'
import { documents } from '../support/markdown.ts'
import { fillPage } from './generated.ts'
import { wrapMarkdown } from './wrap.ts'

const [, , mode, ...files] = process.argv
const isProse = mode === '--prose'

for (const { file } of documents.filter((one) => files.length === 0 || files.includes(one.file))) {
  const path = join(packageRoot, file)
  const before = readFileSync(path, 'utf8')
  const after = isProse ? wrapMarkdown(before, 140) : fillPage(before)
  if (after === before) continue
  writeFileSync(path, after)
  console.log(file)
}
