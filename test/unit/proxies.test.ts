import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readProxies } from '../../src/base/config.ts'

const cwd = '/nowhere/at/all'
const read = (env: Record<string, string>) => readProxies({ env, cwd })

test('without proxy variables, or with empty ones, there is no proxy', () => {
  assert.deepEqual(read({}), {})
  assert.deepEqual(read({ HTTP_PROXY: '', https_proxy: ' ' }), {})
})

test('proxies are read in either case, lower case first', () => {
  assert.deepEqual(read({ HTTP_PROXY: 'http://a:1', HTTPS_PROXY: 'https://b', NO_PROXY: 'x,y' }), {
    http: 'http://a:1',
    https: 'https://b',
    except: 'x,y',
  })
  assert.deepEqual(read({ HTTP_PROXY: 'http://a', http_proxy: 'http://b', no_proxy: '*' }), {
    http: 'http://b',
    except: '*',
  })
})

test('a proxy without a scheme is an http: one', () => {
  assert.deepEqual(read({ HTTP_PROXY: 'proxy.example.com:3128' }), { http: 'http://proxy.example.com:3128' })
})

test('proxies that are no URLs are one error that names every variable, and no value', () => {
  assert.throws(
    () => read({ HTTP_PROXY: 'socks5://name:secret@a', HTTPS_PROXY: 'http://:secret@' }),
    (error: Error & { code?: string }) => {
      assert.equal(error.code, 'usage')
      assert.match(error.message, /HTTP_PROXY: .*\nHTTPS_PROXY: /)
      assert.doesNotMatch(error.message, /secret/)
      return true
    },
  )
})
