/** The release workflow, which runs nowhere but at GitHub: what can be held without it. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { packageRoot } from '../../src/base/package-root.ts'

const text = readFileSync(join(packageRoot, '.github', 'workflows', 'release.yml'), 'utf8')

test('every action is pinned by its commit, and one action by one commit', () => {
  const uses = [...text.matchAll(/uses: (.*)$/gm)].map(([, action = '']) => action)
  assert.ok(uses.length > 5)
  for (const action of uses) assert.match(action, /^actions\/[a-z-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/)
  assert.equal(new Set(uses).size, new Set(uses.map((action) => action.split('@')[0])).size)
})

test('nothing is published untested, no secret is stored, and no job may do more than it names', () => {
  const job = (name: string) =>
    new RegExp(`^  ${name}:\\n((?:(?:    .*)?\\n)+)`, 'm').exec(text)?.[1] ?? assert.fail(name)
  assert.match(job('test'), /run: \.ci\/run\n(.*\n)* {6}- run: npm run test:nodes$/m)
  assert.match(job('pack'), /^ {4}needs: test$/m)
  assert.match(job('publish'), /^ {4}needs: pack$/m)
  assert.doesNotMatch(text, /secrets\./)
  assert.match(text, /^permissions: \{\}$/m)
  for (const name of ['test', 'pack']) assert.match(job(name), /permissions:\n {6}contents: read\n {4}steps:/)
})

test('PostgreSQL is of one version on every platform, which no install changes', () => {
  const { optionalDependencies } = JSON.parse(readFileSync(join(packageRoot, 'package.json'), 'utf8'))
  const [version, ...others] = new Set<string>(Object.values(optionalDependencies))
  assert.match(version ?? '', /^18\.\d+\.0-beta\.\d+$/)
  assert.deepEqual(others, [])
})
