import assert from 'node:assert/strict'
import { test } from 'node:test'
import { acceptsGzip } from '../../src/http/accept-encoding.ts'

test('gzip may be sent where it is named, or * and not it, with a weight above 0', () => {
  const yes = [
    'gzip',
    'GZIP',
    'x-gzip',
    'br, gzip',
    'gzip;q=0.001',
    'gzip ; Q=1',
    '*',
    'br;q=1, *;q=0.5',
    '*;q=0, gzip',
  ]
  for (const value of yes) assert.equal(acceptsGzip(value), true, value)
  const no = [
    undefined,
    '',
    'identity',
    'br',
    'gzip;q=0',
    'gzip; q=0.000',
    '*;q=0',
    'gzip;q=0, *',
    'gzip;q=x',
    'gzipped',
  ]
  for (const value of no) assert.equal(acceptsGzip(value), false, String(value))
})
