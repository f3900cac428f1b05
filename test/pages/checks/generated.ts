/** Generated parts of pages are what `npm run pages` writes. */
import { documents } from '../../support/markdown.ts'
import { fillPage } from '../generated.ts'
import type { Finding } from './finding.ts'

export function* checkGenerated(): Iterable<Finding> {
  for (const { file, lines } of documents) {
    const fresh = fillPage(lines.join('\n')).split('\n')
    const at = fresh.findIndex((line, index) => line !== lines[index])
    if (at >= 0 || fresh.length !== lines.length) yield { file, line: Math.max(at, 0) + 1, text: 'run `npm run pages`: this part is stale' }
  }
} // biome-ignore format: one line
