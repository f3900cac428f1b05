/** Where pages lead: each link to a heading or a file that is there, and that the package has too. */
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { packageRoot } from '../../../src/base/package-root.ts'
import { type Document, documents, readDocument, spansOf } from '../../support/markdown.ts'
import { type Finding, foundAt } from './finding.ts'

/** The anchor that GitHub gives a heading. */
const anchorOf = (heading: string) =>
  heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\s_-]/gu, '')
    .replaceAll(' ', '-')

/** The links of a page within the project, each with its file, from the root of the package, and its heading. */
const linksOf = ({ file, prose }: Document) =>
  [...prose.join('\n').matchAll(/\]\(([^)\s]+)\)/g)].flatMap(([, link = '']) => {
    if (/^https:/.test(link)) return []
    const [path = '', anchor] = link.split('#')
    return [{ link, path: path === '' ? file : join(dirname(file), path), anchor }]
  })

export function* checkLinks(): Iterable<Finding> {
  for (const document of [...documents, readDocument('test/bench/NOTES.md')]) {
    for (const { link, path, anchor } of linksOf(document)) {
      if (!existsSync(join(packageRoot, path))) yield foundAt(document, link, `mend the link: there is no ${path}`)
      else if (anchor !== undefined && !readDocument(path).headings.some((heading) => anchorOf(heading) === anchor))
        yield foundAt(document, link, `mend the link: ${path} has no heading #${anchor}`)
    }
  }
}

export function* checkNamedFiles(): Iterable<Finding> {
  for (const document of documents) {
    const files = document.prose
      .flatMap(spansOf)
      .filter((span) => /^(src|sql|test|bin|demo|docs|examples)\/[\w./-]*$/.test(span))
    for (const file of files)
      if (!existsSync(join(packageRoot, file))) yield foundAt(document, file, `name a file that is there, not ${file}`)
  }
}

/** The package has no link to what it lacks: `examples/zapier` and `.github` are in the repository alone. */
export function* checkPackedLinks(): Iterable<Finding> {
  const manifest = JSON.parse(readFileSync(join(packageRoot, 'package.json'), 'utf8'))
  const packed = ['README.md', 'LICENSE', ...(manifest.files as string[])]
  const isPacked = (path: string) => packed.some((entry) => path === entry || path.startsWith(`${entry}/`))
  for (const document of documents.filter(({ file }) => isPacked(file))) {
    for (const { link, path } of linksOf(document)) {
      if (!isPacked(path) && !packed.some((entry) => entry.startsWith(`${path}/`)))
        yield foundAt(document, link, `link to what package.json packs: ${path} is not in its files`)
    }
  }
}
