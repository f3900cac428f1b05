/** Checks traffic against the OpenAPI document: requests and answers as they were on the wire, with their headers. */
import assert from 'node:assert/strict'
import type { IncomingHttpHeaders } from 'node:http'
import { Ajv2020 } from 'ajv/dist/2020.js'
import formats from 'ajv-formats'
import { buildOpenapi } from '../../src/server/openapi.ts'

// biome-ignore lint/suspicious/noExplicitAny: a document
type Json = any

const methods = ['get', 'put', 'post', 'delete', 'patch']

function buildAjv(document: Json, coerceTypes: boolean): Ajv2020 {
  const ajv = new Ajv2020({ coerceTypes, allErrors: true, strict: false })
  formats.default(ajv)
  return ajv.addSchema(document, 'document')
}

export class Traffic {
  readonly document: Json = buildOpenapi({ automation: 'zapier' })
  /** Every operation with each status that it documents: `test 200`, `delivery default`. */
  readonly documented = new Set<string>()
  /** Those operations and statuses that were seen. */
  readonly seen = new Set<string>()
  private readonly operations = new Map<string, Json>()
  private readonly ajv = buildAjv(this.document, false)
  /** Converts the text of headers and queries. */
  private readonly texts = buildAjv(this.document, true)

  constructor() {
    for (const item of Object.values<Json>({ ...this.document.paths, ...this.document.webhooks })) {
      for (const method of methods.filter((method) => method in item)) {
        const { operationId, responses } = item[method]
        this.operations.set(operationId, item[method])
        for (const status of Object.keys(responses)) this.documented.add(`${operationId} ${status}`)
      }
    }
  }

  /** Every example with its schema. */
  examples(): { at: string; schema: Json; example: Json; isText: boolean }[] {
    const found: { at: string; schema: Json; example: Json; isText: boolean }[] = []
    const visit = (value: Json, at: string) => {
      if (typeof value !== 'object' || value === null) return
      if ('example' in value && 'schema' in value) found.push({ at, ...value, isText: 'in' in value })
      for (const [key, inner] of Object.entries(value)) if (key !== 'example') visit(inner, `${at}/${key}`)
    }
    visit(this.document, '')
    return found
  }

  check(schema: Json, value: Json, what: string, isText = false): void {
    // references lead into the document
    const absolute = JSON.parse(JSON.stringify(schema).replaceAll('"$ref":"#', '"$ref":"document#'))
    const ajv = isText ? this.texts : this.ajv
    assert.ok(ajv.validate(absolute, value), `${what}: ${ajv.errorsText()}`)
  }

  private checkHeaders(
    documented: Record<string, Json>,
    headers: IncomingHttpHeaders,
    ours: RegExp,
    what: string,
  ): void {
    const names = Object.entries(documented).map(([name, header]) => [name.toLowerCase(), header] as const)
    for (const [name, { required, schema }] of names) {
      assert.ok(!required || headers[name] !== undefined, `${what}: no header ${name}`)
      const properties = { value: schema }
      if (headers[name] !== undefined) this.check({ properties }, { value: headers[name] }, `${what}, ${name}`, true)
    }
    const known = new Set(names.map(([name]) => name))
    for (const name of Object.keys(headers)) assert.ok(!ours.test(name) || known.has(name), `${what}: header ${name}`)
  }

  private checkBody(content: Json, headers: IncomingHttpHeaders, body: string, what: string): void {
    const type = headers['content-type']?.replace(/;.*/, '') ?? ''
    assert.ok(content !== undefined && type in content, `${what}: a body of type ${type}`)
    this.check(content[type].schema, type === 'application/json' ? JSON.parse(body) : body, what)
  }

  /** Checks a request that leadpush sent. */
  request(operationId: string, { headers, body }: { headers: IncomingHttpHeaders; body: string | Buffer }): void {
    const { parameters, requestBody } = this.operations.get(operationId)
    const documented = Object.fromEntries(parameters.map((parameter: Json) => [parameter.name, parameter]))
    this.checkHeaders(documented, headers, /^(x-|webhook-|content-encoding)/, operationId)
    this.checkBody(requestBody.content, headers, String(body), operationId)
  }

  /** Checks an answer of leadpush. */
  answer(operationId: string, answered: { status: number; headers: IncomingHttpHeaders; text: string }): number {
    const { responses } = this.operations.get(operationId)
    const status = answered.status in responses ? String(answered.status) : 'default'
    const what = `${operationId} ${answered.status}`
    assert.ok(status in responses, what)
    this.seen.add(`${operationId} ${status}`)
    this.checkHeaders(responses[status].headers ?? {}, answered.headers, /^(retry-after|allow)$/, what)
    this.checkBody(responses[status].content, answered.headers, answered.text, what)
    return answered.status
  }
}
