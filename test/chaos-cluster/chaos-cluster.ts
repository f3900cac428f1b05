/**
 * `npm run chaos:cluster -- [--rounds N] [--minutes M] [--seed S] [--round R] [--sync] [--async] [--patroni] [--short]`: pushes of
 * the real program against a replicated PostgreSQL whose primary is killed and whose standbys are promoted at random, behind an
 * address that refuses or is silent meanwhile. Exit 1 where a promise was broken. `--round` plays one round of a seed again;
 * `--patroni` has Debian's Patroni, etcd and HAProxy make the failovers; `--short` is what `npm test` runs.
 */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { parseArgs } from 'node:util'
import { migrate } from '../../src/db/migrate.ts'
import { openDatabase } from '../../src/db/open.ts'
import { createIntegration } from '../../src/integrations/integrations.ts'
import { importLeads } from '../../src/leads/import.ts'
import { importUsers } from '../../src/users/import.ts'
import { chooseRounds, playRounds, roundOptions } from '../chaos/rounds.ts'
import { type HookReceiver, startHookReceiver } from '../support/hook-receiver.ts'
import { addHook } from '../support/hooks.ts'
import { startProgram } from '../support/program.ts'
import { findScript } from '../support/scripts.ts'
import { checkRound, readEvidence } from './check-round.ts'
import { type Cluster, OwnCluster } from './cluster.ts'
import { forgettableListings, hooked, hookedEmail, subscribersMax, townListings, userEmail, users } from './listings.ts'
import { PatroniCluster } from './patroni.ts'
import { type Kind, planRound, planShortRound, type RoundPlan } from './plan-round.ts'
import { runRound } from './round.ts'
import { query } from './server.ts'
import { Totals } from './totals.ts'

const template = 'cluster_template'

/** Fills the database from which each round's is cloned; returns the API keys of those who subscribe. */
async function fill(cluster: Cluster, hooks: HookReceiver): Promise<string[]> {
  await query(cluster.primaryUrl('postgres'), `create database ${template}`)
  const opened = await openDatabase({ databaseUrl: cluster.primaryUrl(template), home: '' }, { schema: 'any' })
  const from = (lines: Iterable<string>) => ({ stdin: Readable.from(lines, { objectMode: false }) })
  try {
    await migrate(opened.db)
    await importLeads(opened, ['-'], from(townListings('first')))
    await importLeads(opened, ['-'], from(forgettableListings()))
    await importUsers(opened, ['-'], from(users()))
    for (let at = 0; at < hooked; at++) await addHook(opened, hookedEmail(at), hooks.url(`/hooked-${at}`))
    const keys: string[] = []
    for (let at = 0; at < subscribersMax; at++)
      keys.push((await createIntegration(opened.db, { email: userEmail(at) })).apiKey)
    await opened.pool.query('vacuum analyze')
    return keys
  } finally {
    await opened.close()
  }
}

class ClusterChaos {
  private readonly seed: string
  private readonly folder: string
  private readonly cluster: Cluster
  private readonly receiver: ChildProcess
  private readonly receiverPort: number
  private readonly hooks: HookReceiver
  private apiKeys: string[] = []
  readonly totals = new Totals()

  private constructor(
    seed: string,
    folder: string,
    cluster: Cluster,
    receiver: [ChildProcess, number],
    hooks: HookReceiver,
  ) {
    this.seed = seed
    this.folder = folder
    this.cluster = cluster
    ;[this.receiver, this.receiverPort] = receiver
    this.hooks = hooks
  }

  static async start(seed: string, startCluster: () => Promise<Cluster>): Promise<ClusterChaos> {
    const folder = mkdtempSync(join(tmpdir(), 'leadpush-chaos-'))
    const { file, execArgv } = findScript('chaos/receiver.ts')
    const receiver = fork(file, [folder, seed], { execArgv })
    const [[port], hooks] = await Promise.all([once(receiver, 'message'), startHookReceiver()])
    const cluster = await startCluster().catch((error) => {
      receiver.disconnect()
      throw error
    })
    const chaos = new ClusterChaos(seed, folder, cluster, [receiver, port as number], hooks)
    try {
      // a checkout builds the program when it is first run
      const [apiKeys] = await Promise.all([fill(cluster, hooks), startProgram(['--version']).done])
      chaos.apiKeys = apiKeys
      return chaos
    } catch (error) {
      await chaos.end()
      throw error
    }
  }

  async round(round: number, plan: RoundPlan): Promise<void> {
    const { cluster, seed, folder, receiverPort, hooks, apiKeys } = this
    const database = `cluster_${round}`
    hooks.calls.length = 0
    const stage = { cluster, receiverPort, hooks, apiKeys, folder, seed, round, database }
    const beganMs = performance.now()
    const { evidence, violations } = await runRound(stage, plan, template, async (ran) => {
      const found = await readEvidence(cluster.primaryUrl(database), ran, hooks.calls)
      return { evidence: found, violations: checkRound(found) }
    })
    this.totals.add(evidence, violations.length)
    const seconds = Math.round((performance.now() - beganMs) / 1_000)
    const failovers = evidence.ran.ridden.map(({ failover }) => failover.how).join(', ')
    console.log(
      `round ${round}: ${plan.kind}, ${plan.users} users, ${plan.pushes.length} pushes, ${failovers || 'nothing'}, ${seconds} s`,
    )
    if (violations.length === 0) return
    console.log(`  again: npm run chaos:cluster -- --seed ${seed} --round ${round}\n  ${JSON.stringify(plan)}`)
    for (const violation of violations.slice(0, 20)) console.log(`  VIOLATION ${violation}`)
    if (violations.length > 20) console.log(`  and ${violations.length - 20} more`)
  }

  async end(): Promise<void> {
    this.receiver.disconnect()
    await this.hooks.close()
    await this.cluster.leave()
    rmSync(this.folder, { recursive: true, force: true })
  }
}

function readArguments() {
  const { values } = parseArgs({
    options: {
      ...roundOptions,
      sync: { type: 'boolean' },
      async: { type: 'boolean' },
      patroni: { type: 'boolean', default: false },
      short: { type: 'boolean', default: false },
    },
  })
  const { patroni, short } = values
  const chosen = (['synchronous', 'asynchronous'] as const).filter(
    (kind) => values[kind === 'synchronous' ? 'sync' : 'async'],
  )
  const kinds: readonly Kind[] = chosen.length > 0 ? chosen : ['synchronous', 'synchronous', 'asynchronous']
  const rounds = chooseRounds(values)
  const plan = (round: number) =>
    short ? planShortRound(round === 1 ? 'synchronous' : 'asynchronous') : planRound(rounds.seed, round, kinds)
  return { rounds: short ? { ...rounds, last: 2 } : rounds, patroni, plan }
}

async function main(): Promise<number> {
  const { rounds, patroni, plan } = readArguments()
  console.log(`seed ${rounds.seed}`)
  const chaos = await ClusterChaos.start(rounds.seed, () => (patroni ? PatroniCluster.start() : OwnCluster.start()))
  try {
    await playRounds(rounds, (round) => chaos.round(round, plan(round)))
  } finally {
    await chaos.end()
  }
  chaos.totals.print(rounds.seed)
  return chaos.totals.violations > 0 ? 1 : 0
}

process.exitCode = await main()
