import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Validator } from '@seriousme/openapi-schema-validator'
import { buildOpenapi } from '../../src/server/openapi.ts'

test('the document is valid OpenAPI 3.1, and each reference in it leads somewhere', async () => {
  const document = buildOpenapi({ automation: 'n8n' })
  const { valid, errors } = await new Validator().validate({ ...document })
  assert.ok(valid, JSON.stringify(errors))
  const text = JSON.stringify(document)
  const { schemas } = (document as { components: { schemas: object } }).components
  for (const [, name = ''] of text.matchAll(/"\$ref":"#\/components\/schemas\/(\w+)"/g))
    assert.ok(name in schemas, name)
  assert.ok(text.includes('/api/extern/n8n/test'))
})
