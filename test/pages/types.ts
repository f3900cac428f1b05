/** The types that the package exports, with their words: the generated part of docs/reference/json.md. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { packageRoot } from '../../src/base/package-root.ts'

const unstarred = (comment: string) => comment.replace(/^\/\*\*|\*\/$|^ \* ?/gm, '').trim()

export function formatTypes(): string {
  const source = readFileSync(join(packageRoot, 'src', 'index.ts'), 'utf8')
  const declarations = source.matchAll(
    /^(\/\*\*(?:(?!\*\/)[\s\S])*\*\/)\n((?:export )?(?:interface|type) (\w+)[\s\S]*?)\n(?=\n|$)/gm,
  )
  return [...declarations]
    .flatMap(([, comment = '', code = '', name = '']) => [
      `### ${name}`,
      '',
      unstarred(comment),
      '',
      '```ts',
      code.replace(/^export /, ''),
      '```',
      '',
    ])
    .join('\n')
    .trimEnd()
}
