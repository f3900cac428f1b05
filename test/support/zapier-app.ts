/**
 * The Zapier app of examples/zapier for tests: installed where that is missing, and run as Zapier's own test library runs it.
 */
import { fork, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { after } from 'node:test'
import { packageRoot } from '../../src/base/package-root.ts'
import { cleanEnvironment } from './program.ts'

const installMsMax = 120_000
/** Without a network npm would wait for minutes. */
const npmPatience = {
  npm_config_fetch_retries: '1',
  npm_config_fetch_retry_mintimeout: '1000',
  npm_config_fetch_timeout: '20000',
}
const isAway = /\b(ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|ERR_SOCKET_TIMEOUT|ENOTCACHED)\b/

/**
 * Returns why the app cannot be tested, because npm's registry cannot be reached; undefined where it can. Throws where
 * installing fails otherwise.
 */
export function installZapierApp(): string | undefined {
  const { status, stderr, error } = spawnSync(
    process.execPath,
    [join(packageRoot, 'bin', 'setup.js'), join('examples', 'zapier')],
    {
      encoding: 'utf8',
      env: { ...process.env, ...npmPatience },
      timeout: installMsMax,
    },
  )
  if (status === 0) return undefined
  if (isAway.test(`${stderr}${error?.message}`)) return 'npm cannot reach its registry to install examples/zapier'
  throw new Error(`examples/zapier could not be installed: ${error?.message ?? stderr}`)
}

export interface ZapierAnswer {
  // biome-ignore lint/suspicious/noExplicitAny: the app may give anything
  results?: any
  /** The message as Zapier gets it; for some kinds of errors it is JSON. */
  error?: { name: string; message: string }
}

export interface ZapierApp {
  /**
   * Calls the function at a path of the app, such as `authentication.test`, or returns another value at that path. One call
   * at a time.
   */
  call(path: string, bundle?: object): Promise<ZapierAnswer>
  /** Everything that the app logged, requests in detail. */
  log(): string
}

export function startZapierApp(): ZapierApp {
  const child = fork(join(packageRoot, 'test', 'support', 'zapier-app-process.js'), {
    env: cleanEnvironment({ LOG_TO_STDOUT: '1', DETAILED_LOG_TO_STDOUT: '1' }),
    execArgv: [],
    silent: true,
  })
  after(() => void child.kill())
  let log = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding('utf8').on('data', (text: string) => {
      log += text
    })
  }
  const ended = once(child, 'close').then(() => {
    throw new Error(`the Zapier app ended:\n${log}`)
  })
  ended.catch(() => {})
  return {
    async call(path, bundle = {}) {
      child.send({ path, bundle })
      const [answer] = await Promise.race([once(child, 'message'), ended])
      return answer
    },
    log: () => log,
  }
}
