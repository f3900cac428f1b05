/** `DATABASE_URL` as libpq reads it. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseDatabaseUrl } from '../../src/base/database-url.ts'

const hostsOf = (url: string) => parseDatabaseUrl(url).hosts.map(({ host, port }) => `${host}:${port ?? ''}`)

test('hosts and ports are read as libpq reads them: several, of IPv6, folders of sockets, and as parameters', () => {
  assert.deepEqual(hostsOf('postgresql://a:5432,b:5433,c/db'), ['a:5432', 'b:5433', 'c:'])
  assert.deepEqual(hostsOf('postgres://u:p@[::1]:1,[::2]/db'), ['::1:1', '::2:'])
  assert.deepEqual(hostsOf('postgresql://u@%2Frun%2Fpg:5433/db'), ['/run/pg:5433'])
  assert.deepEqual(hostsOf('postgresql:///db?host=/run,b&port=1,2'), ['/run:1', 'b:2'])
  assert.deepEqual(hostsOf('postgresql:///db?host=a,b&port=7'), ['a:7', 'b:7'])
  assert.deepEqual(hostsOf('postgresql:///db'), [])
})

test('user, password and database are decoded, and a lone % is itself', () => {
  const { user, password, database } = parseDatabaseUrl('postgresql://us%40er:p%2F%zz:x@h/d%20b')
  assert.deepEqual([user, password, database], ['us@er', 'p/%zz:x', 'd b'])
})

test('a parameter that is not honoured is refused by name, and no part of a password is shown', () => {
  for (const [query, words] of [
    ['service=x', /without the parameter service/],
    ['passfile=/x', /without the parameter passfile/],
    ['channel_binding=require', /channel_binding .*disable, prefer/],
    ['sslmode=no-verify', /sslmode .*verify-full/],
    ['sslmode=verify-ca', /sslrootcert beside sslmode=verify-ca/],
    ['sslrootcert=/x', /sslmode beside sslrootcert/],
    ['sslmode=require&sslcert=/x', /both sslcert and sslkey/],
    ['sslmode=require&sslrootcert=system', /verify-full beside sslrootcert=system/],
    ['target_session_attrs=standby', /target_session_attrs .*read-write, primary/],
    ['host=a,b,c&port=1,2', /one port, or one for each host/],
  ] as const) {
    assert.throws(
      () => parseDatabaseUrl(`postgresql://u:s3cret@h/db?${query}`),
      (error: Error) => {
        assert.match(error.message, words)
        assert.doesNotMatch(error.message, /s3cret/)
        return true
      },
    )
  }
  for (const url of [
    'postgresql://u:1?secret=x@h/db',
    'mysql://h/db',
    'postgresql://h:65536/db',
    'postgresql://h:0/db',
  ]) {
    assert.throws(() => parseDatabaseUrl(url), /^Error: a URL like postgresql/)
  }
  assert.deepEqual(hostsOf('postgresql://h:65535/db'), ['h:65535'])
  assert.equal(parseDatabaseUrl('postgresql://h/db?ssl=true').parameters.get('sslmode'), 'require')
})
