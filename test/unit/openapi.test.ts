import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createConfig, lintFromString } from '@redocly/openapi-core'
import { buildOpenapi } from '../../src/server/openapi.ts'
import { Traffic } from '../support/openapi.ts'

const rules = {
  'no-invalid-media-type-examples': 'error',
  'no-invalid-parameter-examples': 'error',
  'no-invalid-schema-examples': 'error',
  'no-schema-type-mismatch': 'error',
} as const

test("the document passes Redocly's strict rules without a warning, with any name of the platform", async () => {
  const config = await createConfig({ extends: ['recommended-strict'], rules })
  const lint = async (document: object) => {
    const source = JSON.stringify(document)
    const problems = await lintFromString({ source, config, absoluteRef: 'openapi.json' })
    return problems.map(({ ruleId, message, location }) => `${ruleId}: ${message} ${location[0]?.pointer}`)
  }
  const document = buildOpenapi({ automation: 'n8n' })
  assert.deepEqual(await lint(document), [])
  assert.ok('/api/extern/n8n/test' in (document as { paths: object }).paths)
  // the check can fail
  assert.match((await lint({ ...document, security: undefined })).join(), /security-defined/)
})

test('every example fits its schema, and every body and header has one', () => {
  const traffic = new Traffic()
  const examples = traffic.examples()
  for (const { at, schema, example, isText } of examples) traffic.check(schema, example, at, isText)
  const text = JSON.stringify(traffic.document)
  const bodies = text.match(/"application\/json":/g) ?? []
  assert.ok(examples.filter(({ isText }) => !isText).length >= bodies.length - 1, 'all but the document itself')
  assert.throws(() => traffic.check({ $ref: '#/components/schemas/Query' }, { type: 'zipcode' }, 'Query'), /radius/)
})
