/** Which URLs may be hooks (contract 5.2), and where a connection to one goes when DNS changes its mind. */
import assert from 'node:assert/strict'
import net from 'node:net'
import { test } from 'node:test'
import { readSettings } from '../../src/base/config.ts'
import { hookLookupMsMax } from '../../src/base/limits.ts'
import { createHttp } from '../../src/http/client.ts'
import {
  checkHookUrl,
  findHookAddresses,
  findUrlProblem,
  isPublicAddress,
  spellHookUrl,
} from '../../src/integrations/hook-address.ts'
import { listen } from '../support/sockets.ts'

const answers: Record<string, string[]> = {
  'hooks.example.com': ['93.184.215.14', '2606:2800:21f:cb07:6820:80da:af6b:8b2c'],
  'xn--hks-sna.example.com': ['93.184.215.14'],
  'inside.example.com': ['10.0.0.7'],
  'half.example.com': ['93.184.215.14', '192.168.1.1'],
  'mapped.example.com': ['::ffff:127.0.0.1'],
  'metadata.example.com': ['169.254.169.254'],
  'six.example.com': ['fd00:ec2::254'],
  'platform.example.com': ['168.63.129.16'],
  'zero.example.com': ['0.0.0.0'],
  'nat64.example.com': ['64:ff9b::a00:1'],
  'unspecified.example.com': ['93.184.215.14', '::'],
  'nowhere.example.com': [],
}

async function findAddresses(hostname: string): Promise<string[]> {
  const found = answers[hostname.replace(/\.$/, '')]
  if (!found) throw Object.assign(new Error('no such name'), { code: 'ENOTFOUND' })
  return found
}

const readHosts = (LEADPUSH_HOOK_HOSTS: string) =>
  readSettings(['hookHosts'], { env: { LEADPUSH_HOOK_HOSTS }, cwd: '/' }).hookHosts
const check = (url: string) => checkHookUrl(url, { allowInsecure: false, findAddresses })

const hosts = [
  // this machine, in every notation that a URL allows
  '127.0.0.1', '127.1', '127.0.1', '2130706433', '0x7f000001', '0x7f.0.0.1', '0177.0.0.1', '017700000001', '127.0.0.1.',
  '127.255.255.254', '0', '0x0', '00.0', '0.0.0.0', '0.1.2.3', '%31%32%37.0.0.1', '１２７.0.0.1', '127。0。0。1',
  // private, shared, link-local, metadata, benchmarking, documentation, multicast, reserved
  '10.0.0.1', '10.255.255.255', '172.16.0.1', '172.31.255.255', '192.168.0.1', '0xc0a80001', '100.64.0.1',
  '100.127.255.255', '169.254.169.254', '0xA9FEA9FE', '2852039166', '169.254.0.1', '198.18.0.1', '198.19.255.255',
  '192.0.0.8', '192.0.2.1', '198.51.100.1', '203.0.113.1', '192.88.99.1', '224.0.0.1', '239.255.255.255', '240.0.0.1',
  '255.255.255.255',
  // the address that each machine in Azure reaches, and only from inside
  '168.63.129.16', '0xa83f8110', '2822734096', '0250.077.0201.020', '168.63.33040', '[::ffff:a83f:8110]', '[64:ff9b::a83f:8110]',
  'platform.example.com',
  // the same in IPv6, and IPv4 addresses inside IPv6 ones
  '[::]', '[::1]', '[0:0:0:0:0:0:0:1]', '[::127.0.0.1]', '[::ffff:127.0.0.1]', '[::ffff:7f00:1]', '[::ffff:8.8.8.8]',
  '[::ffff:0:127.0.0.1]', '[64:ff9b::7f00:1]', '[64:ff9b::10.0.0.1]', '[64:ff9b::8.8.8.8]', '[64:FF9B:0:0:0:0:A00:1]', '[::7f00:1]', '[0:0:0:0:0:FFFF:0:0]', '[64:ff9b:1::10.0.0.1]', '[2002:7f00:1::]',
  '[2002:a00:1::1]', '[2001::1]', '[2001:0:4136:e378:8000:63bf:3fff:fdd2]', '[2001:2::1]', '[2001:10::1]', '[2001:20::1]',
  '[2001:db8::1]', '[3fff::1]', '[fc00::1]', '[fd00:ec2::254]', '[fe80::1]', '[fec0::1]', '[febf::1]', '[ff02::1]',
  '[100::1]', '[5f00::1]', '[4000::1]', '[e000::1]',
  // names that only have a meaning inside a network, and names that DNS leads there
  'localhost', 'LOCALHOST', 'localhost.', 'a.localhost', 'a.localhost.', 'intranet', 'printer.local', 'db.internal',
  'metadata.google.internal', 'nas.home.arpa', 'x.lan', 'inside.example.com', 'inside.example.com.', 'INSIDE.example.com', 'zero.example.com',
  'nat64.example.com', 'unspecified.example.com',
  'half.example.com', 'mapped.example.com', 'metadata.example.com', 'six.example.com', ] // biome-ignore format: a list

const urls = [
  'http://hooks.example.com/a', 'ftp://hooks.example.com/a', 'file:///etc/passwd', 'javascript:alert(1)', 'hooks.example.com',
  '//hooks.example.com/a', '', 'https://', 'https:hooks.example.com', 'https:/hooks.example.com', 'https:\\\\hooks.example.com',
  'https://user@hooks.example.com/', 'https://user:word@hooks.example.com/', 'https://@hooks.example.com/',
  'https://:word@hooks.example.com', 'https://hooks.example.com\\@127.0.0.1/', 'https://127.0.0.1\\@hooks.example.com/',
  'https://hooks.example.com@127.0.0.1/', ' https://hooks.example.com/', 'https://hooks.example.com/ ',
  'https://hooks.exa\tmple.com/', 'https://hooks.example.com/\n', 'https://hooks.example.com/a b', 'https://hooks.example.com/\0',
  'https://hooks.example.com/\u00a0', 'https://hooks.example.com/\ud800', 'https://hooks.example.com/\ufffd', 'https://hooks.example.com:0/',
  'https://hooks.example.com:65536/', 'https://hooks.example.com:x/', 'https://[::1', 'https://[fe80::1%25eth0]/',
  'https://256.256.256.256/', 'https://1.2.3.4.5/', 'https://exa_mple..com/',
  // the parser skips further slashes, so a user and a password behind them went unseen
  'https:///hooks.example.com/', 'https:///user:word@hooks.example.com/',
] // biome-ignore format: a list

test('addresses that are not public are refused, however they are written', async (t) => {
  for (const host of hosts) {
    await t.test(host, async () => assert.match((await check(`https://${host}/a`)) ?? '', /public addresses alone/))
  }
})

test('a name without addresses is refused', async () => {
  for (const name of ['nowhere', 'unknown']) {
    assert.equal(await check(`https://${name}.example.com/`), 'The host name of the hook URL is unknown.')
  }
})

test('a URL that is not https:, holds credentials or would have to be repaired is refused', async (t) => {
  for (const url of urls)
    await t.test(JSON.stringify(url), async () => assert.match((await check(url)) ?? '', /^The ho.*\.$/))
})

test('public addresses are accepted, on any port', async () => {
  const good = [
    'https://hooks.example.com', 'https://hooks.example.com:8443/a/b?c=d@e#f', 'HTTPS://Hooks.Example.COM./a', 'https://8.8.8.8/',
    'https://[2606:4700::1111]/', 'https://höks.example.com/', 'https://100.63.255.255/', 'https://100.128.0.1/', 'https://172.32.0.1/',
    'https://11.0.0.1/', 'https://198.20.0.1/', 'https://223.255.255.255/', 'https://[2001:200::1]/', 'https://[3ffe::1]/',
  ] // biome-ignore format: a list
  for (const url of good) assert.equal(await check(url), undefined, url)
})

test('URLs that differ only in spelling count as one, others do not', () => {
  const same = [
    'https://hooks.example.com/hook/a%20b?token=a-b',
    'HTTPS://HOOKS.Example.COM/hook/a%20b?token=a-b',
    'https://hooks.example.com:443/hook/a%20b?token=a-b',
    'https://hooks.example.com./hook/a%20b?token=a-b',
    'https://hooks.example.com.:443/hook/a%20b?token=a-b#part',
    'https://hooks.example.com/hook/a%20b?token=a-b#',
    'https://hooks.example.com/%68%6F%6fk/%61%20b?t%6Fken=a%2Db',
    'https://hooks.example.com/x/../hook/./a%20b?token=a-b',
  ]
  assert.deepEqual([...new Set(same.map(spellHookUrl))], [same[0]])
  assert.equal(spellHookUrl('https://hooks.example.com'), spellHookUrl('https://hooks.example.com/'))
  assert.equal(spellHookUrl('https://hooks.example.com/%c3%a9'), spellHookUrl('https://hooks.example.com/é'))
  const others = [
    'https://hooks.example.com/Hook', 'https://hooks.example.com/hook', 'https://hooks.example.com/hook/',
    'https://hooks.example.com/hook?', 'https://hooks.example.com/hook?a=%26', 'https://hooks.example.com/hook?a=&',
    'https://hooks.example.com/hook%2Fa', 'https://hooks.example.com/hook/a', 'https://hooks.example.com/%2573',
    'https://hooks.example.com/%73', 'https://hooks.example.com:8443/hook', 'http://hooks.example.com/hook', 'no URL',
  ] // biome-ignore format: a list
  assert.equal(new Set(others.map(spellHookUrl)).size, others.length)
})

test('a hook URL has at most 2,048 characters', async () => {
  const ofLength = (length: number) => 'https://hooks.example.com/'.padEnd(length, 'é')
  assert.equal(await check(ofLength(2_047)), undefined)
  assert.equal(await check(ofLength(2_048)), undefined)
  assert.match((await check(ofLength(2_049))) ?? '', /at most 2048 characters/)
})

test('a name that is not resolved in time is refused, and can be tried again', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const problems: (string | undefined)[] = []
  const findAddresses = () => new Promise<string[]>(() => {})
  const checking = checkHookUrl('https://slow.example.com/', { allowInsecure: false, findAddresses }).then((problem) =>
    problems.push(problem),
  )
  await new Promise(setImmediate)
  t.mock.timers.tick(hookLookupMsMax - 1)
  await new Promise(setImmediate)
  assert.deepEqual(problems, [])
  t.mock.timers.tick(1)
  await checking
  assert.match(problems[0] ?? '', /could not be looked up: try again/)
})

test('a registered URL may have a name that cannot be resolved now, and no address that is not public', async () => {
  // the addresses of a registered URL were not looked at
  const checkAgain = (host: string) =>
    checkHookUrl(`https://${host}/`, { allowInsecure: false, findAddresses }, { isRegistered: true })
  for (const host of ['hooks.example.com', 'nowhere.example.com', 'unknown.example.com'])
    assert.equal(await checkAgain(host), undefined, host)
  for (const host of ['inside.example.com', 'half.example.com', '10.0.0.7', 'localhost'])
    assert.match((await checkAgain(host)) ?? '', /public addresses alone/, host)
})

test('for development http: and loopback are accepted, credentials are not', async () => {
  const options = { allowInsecure: true }
  for (const url of ['http://127.0.0.1:8080/a', 'http://localhost/a', 'https://[::1]/']) {
    assert.equal(await checkHookUrl(url, options), undefined, url)
  }
  for (const url of ['http://user@127.0.0.1/', 'ftp://127.0.0.1/', 'http://127.0.0.1:0/']) {
    assert.match((await checkHookUrl(url, options)) ?? '', /^The hook URL/, url)
  }
})

test('a text that is no address is not public', () => {
  for (const text of ['', 'localhost', '1.2.3', '8.8.8.8 ', '::g']) assert.equal(isPublicAddress(text), false, text)
})

test('no connection goes to a name that was public when it was registered and leads inside now', async () => {
  const server = await listen(net.createServer())
  const asked: string[] = []
  // a rebinding name answers with a public address first, and with another later
  const options = {
    allowInsecure: false,
    findAddresses: async (name: string) => {
      asked.push(name)
      return asked.length === 1 ? ['93.184.215.14'] : ['127.0.0.1']
    },
  }
  const find = (hostname: string) => findHookAddresses(hostname, options)
  const http = createHttp({ timeoutMs: 2_000, concurrency: 2, findAddresses: find })
  try {
    const url = `http://rebinding.example.com:${server.port}/`
    assert.deepEqual(await find('rebinding.example.com'), ['93.184.215.14'])
    const refused = {
      kind: 'no-answer',
      sent: false,
      stage: 'connect',
      reused: false,
      code: 'ENOTPUBLIC',
      error: 'it leads to an address that is not public (ENOTPUBLIC)',
    }
    assert.deepEqual(await http.post({ url, headers: [], body: Buffer.from('{}'), timeoutMs: 2_000 }), refused)
    assert.deepEqual(await http.delete(`http://127.0.0.1:${server.port}/`, 2_000), refused)
    assert.deepEqual(await http.get(`http://[::ffff:127.0.0.1]:${server.port}/`, 2_000), refused)
    assert.deepEqual(asked, ['rebinding.example.com', 'rebinding.example.com'])
    assert.equal(server.connections(), 0)
  } finally {
    await http.close()
    await server.close()
  }
})

test('a connection goes to the addresses that were found, and nowhere else', async () => {
  const server = await listen(net.createServer((socket) => socket.end('HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n')))
  const http = createHttp({ timeoutMs: 2_000, concurrency: 1, findAddresses: async () => ['127.0.0.1'] })
  try {
    const outcome = await http.get(`http://name-that-no-dns-knows.example.com:${server.port}/`, 2_000)
    assert.equal(outcome.kind === 'answer' && outcome.status, 200)
  } finally {
    await http.close()
    await server.close()
  }
})

test('with LEADPUSH_HOOK_HOSTS a hook URL has one of these hosts, in any spelling', () => {
  const hosts = readHosts('hooks.example.com, *.example.org,93.184.215.14,2606:2800::1,Bücher.example.')
  const problemOf = (host: string) => findUrlProblem(`https://${host}/a`, { allowInsecure: false, hosts })
  const allowed = [
    'hooks.example.com', 'HOOKS.example.com.', 'hooks.example.com:8443', 'a.example.org', 'a.b.example.org', 'b%C3%BCcher.example',
    '93.184.215.14', '[2606:2800:0::1]', 'xn--bcher-kva.example',
  ] // biome-ignore format: a list
  for (const host of allowed) assert.equal(problemOf(host), undefined, host)
  const others = [
    'example.com', 'a.hooks.example.com', 'hooks.example.com.evil.example', 'example.org', 'badexample.org', 'example.org.evil.example',
    '93.184.215.15', '[2606:2800::2]',
  ] // biome-ignore format: a list
  for (const host of others) assert.match(problemOf(host) ?? '', /has a host that is not allowed here/, host)
  assert.match(findUrlProblem('https://10.0.0.1/', { allowInsecure: false, hosts: [] }) ?? '', /not allowed/)
})

test('LEADPUSH_HOOK_HOSTS allows no address that is not public', async () => {
  const hosts = readHosts('10.0.0.1')
  assert.match(
    (await checkHookUrl('https://10.0.0.1/', { allowInsecure: false, hosts })) ?? '',
    /public addresses alone/,
  )
})

test('LEADPUSH_HOOK_HOSTS with anything but hosts is an error that says what is allowed', () => {
  const wrong = [
    'https://a.example',
    'a.example:443',
    'a.example/x',
    '*',
    '*.',
    'a.*.example',
    '*.10.0.0.1',
    'a.example,,b.example',
    'a b',
    '[::1]:443',
  ]
  for (const text of wrong)
    assert.throws(() => readHosts(text), /LEADPUSH_HOOK_HOSTS: holds .*allowed: host names/, text)
})
