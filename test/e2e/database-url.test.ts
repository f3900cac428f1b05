/** `DATABASE_URL` as libpq understands it: TLS by `sslmode`. */
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { packageRoot } from '../../src/base/package-root.ts'
import { createDatabase } from '../support/database.ts'
import { callProgram } from '../support/program.ts'
import { startSecureWay } from '../support/secure-way.ts'
import { startWay } from '../support/way.ts'

const certificate = (file: string) => join(packageRoot, 'test/support/certificates', file)

test('sslmode has the meaning that libpq gives it, and a fault of a certificate is named', async () => {
  const { url } = await createDatabase()
  const plain = (await startWay(url)).url
  const [good, elsewhere] = [await startSecureWay(url, 'localhost.pem'), await startSecureWay(url, 'elsewhere.pem')]
  const ca = `sslrootcert=${encodeURIComponent(certificate('ca.pem'))}`
  const foreign = `sslrootcert=${encodeURIComponent(certificate('client-ca.pem'))}`
  for (const [address, query, expected, words] of [
    [plain, '', 0, /^$/],
    [plain, 'sslmode=disable', 0, /^$/],
    [plain, 'sslmode=allow', 0, /^$/],
    [plain, 'sslmode=prefer', 0, /^$/],
    [plain, 'sslmode=require', 3, /does not support SSL[\s\S]*Turn ssl on/],
    [good, 'sslmode=prefer', 0, /^$/],
    [good, 'sslmode=require', 0, /^$/],
    [elsewhere, `sslmode=require&${ca}`, 0, /^$/],
    [good, `sslmode=require&${foreign}`, 3, /certificate[\s\S]*sslrootcert/],
    [elsewhere, `sslmode=verify-ca&${ca}`, 0, /^$/],
    [good, `sslmode=verify-full&${ca}`, 0, /^$/],
    [good, 'sslmode=verify-full', 3, /certificate[\s\S]*NODE_EXTRA_CA_CERTS/],
    [elsewhere, `sslmode=verify-full&${ca}`, 3, /altnames[\s\S]*a host name that the certificate has/],
    [
      good,
      'sslmode=verify-full&sslrootcert=%2Fnowhere%2Fca.pem',
      2,
      /DATABASE_URL: its sslrootcert cannot be read: .*\/nowhere\/ca\.pem/,
    ],
    [good, 'sslmode=no-verify', 2, /allowed: a URL whose parameter sslmode leadpush honours/],
  ] as const) {
    const { code, stderr } = await callProgram(['users', 'list'], { env: { DATABASE_URL: `${address}?${query}` } })
    assert.equal(code, expected, `${query}: ${stderr}`)
    assert.match(stderr, words, query)
  }
  // neither is an absence, which a push would wait out
  const env = { DATABASE_URL: `${elsewhere}?sslmode=verify-full&${ca}`, LEADPUSH_DATABASE_AWAY: '1h' }
  const { code, stderr } = await callProgram(['trigger'], { env })
  assert.equal(code, 3)
  assert.match(stderr, /^error: /)
})
