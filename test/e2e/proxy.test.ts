/** The proxies of `examples/proxy` before a real `serve`: what they let through, whom it sees, and what their logs have. */
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import http from 'node:http'
import net from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { packageRoot } from '../../src/base/package-root.ts'
import { buildHouse, makeUsers } from '../support/house.ts'
import { lacking } from '../support/installed.ts'
import { createKeys, type Serve, startServe } from '../support/serve.ts'
import { isListening } from '../support/sockets.ts'
import { until } from '../support/until.ts'

interface Proxy {
  program: string
  example: string
  /** Its file with ports of the test's own, without TLS, and what the system's own configuration brings beside it. */
  adapt(text: string, ports: { own: string; serve: number }, folder: string): string
  args(file: string, folder: string): string[]
  /** Its file bounds the head of a request; the others do so by default. */
  boundsHead?: boolean
  /** Ends it once the requests under way are done, and logged. */
  end: NodeJS.Signals
}

/** The text to be replaced must be there. */
const replace = (text: string, what: string | RegExp, by: string) => {
  const replaced = text.replace(what, by)
  assert.notEqual(replaced, text, String(what))
  return replaced
}
const upstream = '127.0.0.1:8080'
const proxyPort = 8_443

const proxies: readonly Proxy[] = [
  {
    program: 'nginx',
    example: 'nginx.conf',
    adapt(text, { own, serve }, folder) {
      const plain = replace(replace(text, 'listen 443 ssl', `listen ${own}`), /^ *ssl_.*\n/gm, '')
      const site = replace(replace(plain, upstream, `127.0.0.1:${serve}`), '/var/log/nginx', folder)
      const paths = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
        (name) => `${name}_temp_path ${folder}/${name};`,
      )
      return `daemon off; master_process off; pid ${folder}/pid; error_log ${folder}/error.log info; ${process.getuid?.() === 0 ? 'user root;' : ''}
        events {} http { access_log ${folder}/access.log; ${paths.join(' ')}\n${site}}`
    },
    args: (file, folder) => ['-p', folder, '-e', join(folder, 'early.log'), '-c', file],
    end: 'SIGQUIT',
  },
  {
    program: 'caddy',
    example: 'Caddyfile',
    adapt(text, { own, serve }) {
      const site = replace(
        replace(text, 'leadpush.example.com {', `http://${own} {\nbind ${own.split(':')[0]}`),
        upstream,
        `127.0.0.1:${serve}`,
      )
      // without it `admin` is a port that the machine's own has, too
      return replace(site, /^\{\n/m, '{\nadmin off\ndebug\n')
    },
    args: (file) => ['run', '--adapter', 'caddyfile', '--config', file],
    end: 'SIGTERM',
  },
  {
    program: 'haproxy',
    example: 'haproxy.cfg',
    adapt(text, { own, serve }) {
      const plain = replace(text, /bind :443 ssl .*/, `bind ${own}`)
      const hasty = replace(plain, 'timeout http-request 10s', 'timeout http-request 3s')
      return replace(replace(hasty, upstream, `127.0.0.1:${serve}`), '/dev/log', 'stdout format raw')
    },
    args: (file) => ['-db', '-f', file],
    boundsHead: true,
    end: 'SIGUSR1',
  },
]

const house = await buildHouse({ users: makeUsers(1) })
const [{ apiKey: key } = { apiKey: '' }] = await createKeys(house, ['user-0@example.com'])

const running = new Set<ChildProcess>()
process.on('exit', () => {
  for (const child of running) child.kill('SIGKILL')
})

async function startProxy(proxy: Proxy, ports: { own: string; serve: number }) {
  const folder = mkdtempSync(join(tmpdir(), 'leadpush-proxy-'))
  after(() => rmSync(folder, { recursive: true, force: true }))
  mkdirSync(join(folder, 'home'))
  const file = join(folder, proxy.example)
  const example = readFileSync(join(packageRoot, 'examples/proxy', proxy.example), 'utf8')
  writeFileSync(file, proxy.adapt(example, ports, folder))
  const env = { PATH: `${process.env.PATH}:/usr/sbin`, HOME: join(folder, 'home') }
  const child = spawn(proxy.program, proxy.args(file, folder), { cwd: folder, env, stdio: ['ignore', 'pipe', 'pipe'] })
  running.add(child)
  let said = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (said += chunk))
  const closed = once(child, 'close').then(() => running.delete(child))
  await until('it listens', async () => {
    assert.ok(running.has(child), `${proxy.program} has ended: ${said}`)
    return await isListening(proxyPort, ports.own.split(':')[0])
  })
  return {
    /** Ends it; returns all that it wrote, to any file. */
    async stop(): Promise<string> {
      child.kill(proxy.end)
      const timer = setTimeout(() => child.kill('SIGKILL'), 30_000)
      await closed
      clearTimeout(timer)
      const files = readdirSync(folder, { withFileTypes: true, recursive: true }).filter((entry) => entry.isFile())
      const logs = files.filter(({ name }) => name !== proxy.example)
      return [said, ...logs.map(({ parentPath, name }) => readFileSync(join(parentPath, name), 'utf8'))].join('\n')
    },
  }
}

interface Ask {
  method?: string
  body?: string
  from?: string
  headers?: http.OutgoingHttpHeaders
}

/** The status of the answer, from an address of this machine that is not the proxy's. */
function ask(host: string, path: string, { method = 'GET', body, from = '127.0.0.2', headers = {} }: Ask = {}) {
  return new Promise<number>((resolve, reject) => {
    const length = body === undefined ? {} : { 'Content-Length': body.length }
    const request = http.request({
      host, port: proxyPort, path, method, agent: false, localAddress: from, headers: { ...length, ...headers }, timeout: 60_000,
    }) // biome-ignore format: short
    request.on('timeout', () => request.destroy(new Error(`${method} ${path.slice(0, 40)} had no answer`)))
    request.on('error', reject).on('response', (response) => {
      response.resume().on('end', () => resolve(response.statusCode ?? 0))
    })
    request.end(body)
  })
}

/** What comes of a head that never ends, of which a byte comes now and then. */
async function drip(host: string): Promise<string> {
  let said = ''
  const socket = net.connect(proxyPort, host, () => socket.write('GET / HTTP/1.1\r\nX: '))
  const dripping = setInterval(() => socket.write('x'), 100)
  const giveUp = setTimeout(() => socket.destroy(), 60_000)
  socket.on('error', () => {}).on('data', (bytes) => (said += bytes))
  await once(socket, 'close')
  clearInterval(dripping)
  clearTimeout(giveUp)
  return said
}

/** The setting that the example tells. */
function findTrusted({ example }: Proxy): string {
  const text = readFileSync(join(packageRoot, 'examples/proxy', example), 'utf8')
  return /^# .*LEADPUSH_TRUST_PROXY=([\d.]+)/m.exec(text)?.[1] ?? ''
}

async function sendEveryKind(proxy: Proxy, serve: Serve, host: string): Promise<void> {
  const pathOf = (name: string, apiKey = key) => `/api/extern/zapier/${name}?api_key=${apiKey}`
  assert.equal(await ask(host, pathOf('test')), 200)
  for (const path of ['/', '/metrics', '/healthz', '/api/extern', '/api/extern/../../metrics', '/api/extern/%2e%2e/%2e%2e/metrics'])
    assert.equal(await ask(host, `${path}?api_key=${key}`), 404, path)
  const post = (length: number) => ask(host, pathOf('subscribe'), { method: 'POST', body: 'x'.repeat(length) })
  assert.deepEqual([await post(65_536), await post(65_537)], [422, 413])
  // the first was the one bad request that an address may make; what a caller writes into the header changes nothing
  const spoofed = { headers: { 'X-Forwarded-For': '198.51.100.7' } }
  assert.deepEqual(
    [await ask(host, pathOf('test', 'no')), await ask(host, pathOf('test', 'no'), spoofed)],
    [429, 429],
  )
  assert.equal(await ask(host, pathOf('test', 'no'), { from: '127.0.0.3' }), 401)
  await serve.program.waitFor(/"address":"127\.0\.0\.3"/)
  const addresses = serve.log().flatMap(({ msg, address }) => (msg === 'request' ? [address] : []))
  assert.deepEqual([...new Set(addresses)].sort(), ['127.0.0.2', '127.0.0.3'])
  assert.deepEqual(serve.log().filter(({ level }) => level === 'warn').map(({ msg }) => msg), [], proxy.program)
  // what is no HTTP, and what is too long
  for (const head of ['No Header\r\n', `X: ${'x'.repeat(70_000)}\r\n`, 'Host: a b\r\n', 'Content-Length: x\r\n']) {
    const socket = net.connect(proxyPort, host, () => socket.write(`GET ${pathOf('test')} HTTP/1.1\r\nHost: a\r\n${head}\r\n`))
    socket.setTimeout(5_000, () => socket.destroy())
    socket.on('error', () => {}).on('data', () => socket.destroy())
    await once(socket, 'close')
  }
} // biome-ignore format: long lines

// The proxies that README showed wrote whole requests, with the key, into their error logs: whenever `serve` was away, and for
// bodies that were too large.
for (const proxy of proxies) {
  const skip =
    process.platform !== 'linux' ? 'only Linux has more than one loopback address by itself' : lacking(proxy.program)
  test(`${proxy.program}, as its example has it, tells callers apart, passes nothing else on, and logs no key`, {
    skip,
  }, async () => {
    const trusted = findTrusted(proxy)
    const serve = await startServe(house, { LEADPUSH_TRUST_PROXY: trusted, LEADPUSH_LIMIT_ADDRESS: '1' })
    // one of its own: nobody else gets a port of it
    const host = `127.77.${process.pid % 256}.${1 + proxies.indexOf(proxy)}`
    const started = await startProxy(proxy, { own: `${host}:${proxyPort}`, serve: serve.port })
    let logs = ''
    try {
      await sendEveryKind(proxy, serve, host)
      if (proxy.boundsHead) assert.match(await drip(host), /^HTTP\/1\.1 408 /)
      serve.program.kill('SIGKILL')
      await serve.program.done
      assert.ok([502, 503].includes(await ask(host, `/api/extern/zapier/test?api_key=${key}`)))
    } finally {
      serve.program.kill('SIGKILL')
      logs = await started.stop()
    }
    assert.ok(
      !logs.includes(key.slice(4, 20)),
      logs.split('\n').find((line) => line.includes(key.slice(4, 20))),
    )
    // what came of requests is there all the same
    for (const told of [/\/api\/extern\/zapier\/test/, /\/metrics/, /\b413\b/, /\b429\b/, /\b50[23]\b/])
      assert.match(logs, told)
  })
}
