/**
 * `npm run chaos -- [--rounds N] [--minutes M] [--seed S] [--round R]`: pushes of the real program against a database and a
 * receiver that are killed, stopped, frozen, slowed, throttling or absent at random, with the processes themselves, while all
 * users and all listings are imported again; after each round the receiver's own log, the ledger and what the commands told
 * must agree. Exit 1 where they did not. `--round` plays one round of a seed again.
 */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { parseArgs } from 'node:util'
import pg from 'pg'
import { migrate } from '../../src/db/migrate.ts'
import { openDatabase } from '../../src/db/open.ts'
import { importUsers } from '../../src/users/import.ts'
import { startProgram } from '../support/program.ts'
import { findScript } from '../support/scripts.ts'
import { checkRound, readEvidence } from './check-round.ts'
import { importChanged, userLines } from './imports.ts'
import { planRound, type RoundPlan } from './plan-round.ts'
import { type BreakablePostgres, startPostgres } from './postgres.ts'
import { Random } from './random.ts'
import type { Command } from './receiver.ts'
import { type RanRound, runRound } from './round.ts'
import { chooseRounds, playRounds, roundOptions } from './rounds.ts'

const templateName = 'chaos_template'

async function query(url: string, ...statements: string[]): Promise<void> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 30_000, query_timeout: 30_000 })
  client.on('error', () => {})
  await client.connect()
  try {
    for (const statement of statements) await client.query(statement)
  } finally {
    await client.end()
  }
}

async function makeTemplate(postgres: BreakablePostgres): Promise<void> {
  await query(postgres.url('postgres'), `create database ${templateName}`)
  const opened = await openDatabase({ databaseUrl: postgres.url(templateName), home: '' }, { schema: 'any' })
  try {
    await migrate(opened.db)
    await importChanged(opened, new Random('leads'), 'first')
    const lines = userLines()
    await importUsers(opened, ['-'], { stdin: Readable.from(lines, { objectMode: false }) })
    await opened.pool.query('vacuum analyze')
  } finally {
    await opened.close()
  }
}

class Chaos {
  private readonly seed: string
  private readonly folder: string
  private readonly postgres: BreakablePostgres
  private readonly receiver: ChildProcess
  private readonly port: number
  readonly total = {
    rounds: 0,
    processes: 0,
    processKills: 0,
    postgresKills: 0,
    /** Attempts under way in the ledger when their process was killed. */
    attemptsLost: 0,
    users: 0,
    requests: 0,
    throttled: 0,
    refused: 0,
    violations: 0,
  }
  readonly troubles: Record<string, number> = {}
  readonly ended: Record<string, number> = {}

  private constructor(seed: string, folder: string, postgres: BreakablePostgres, receiver: ChildProcess, port: number) {
    this.seed = seed
    this.folder = folder
    this.postgres = postgres
    this.receiver = receiver
    this.port = port
  }

  static async start(seed: string): Promise<Chaos> {
    const folder = mkdtempSync(join(tmpdir(), 'leadpush-chaos-'))
    const { file, execArgv } = findScript('chaos/receiver.ts')
    const receiver = fork(file, [folder, seed], { execArgv })
    const [[port], postgres] = await Promise.all([once(receiver, 'message'), startPostgres()])
    const chaos = new Chaos(seed, folder, postgres, receiver, port as number)
    try {
      // a checkout builds the program when it is first run
      await Promise.all([makeTemplate(postgres), startProgram(['--version']).done])
      return chaos
    } catch (error) {
      await chaos.end()
      throw error
    }
  }

  async round(round: number): Promise<void> {
    const plan = planRound(this.seed, round)
    const { postgres, seed, folder: logFolder, port: receiverPort } = this
    const database = `chaos_${round}`
    const early = plan.confirmsEarly ? [`alter database ${database} set synchronous_commit = off`] : []
    // cloned through the log, a sequence gives numbers out that are not in the log: after a kill it gives them once more
    const create = `create database ${database} template ${templateName} strategy file_copy`
    await query(postgres.url('postgres'), create, ...early)
    const tellReceiver = (command: Command) => void this.receiver.send(command)
    const stage = { postgres, receiverPort, tellReceiver, logFolder, round, database, seed }
    const violations = await runRound(stage, plan, async (ran, db) => {
      const evidence = await readEvidence(db, ran, join(logFolder, `${round}.log`))
      this.add(plan, ran, evidence)
      return checkRound(evidence)
    })
    this.total.violations += violations.length
    if (violations.length > 0) console.log(`round ${round}: ${JSON.stringify(plan)}`)
    for (const violation of violations) console.log(`  VIOLATION ${violation}`)
    await query(postgres.url('postgres'), `drop database ${database} with (force)`)
  }

  private add(
    plan: RoundPlan,
    ran: RanRound,
    { requests, deliveries }: Awaited<ReturnType<typeof readEvidence>>,
  ): void {
    this.total.rounds++
    this.total.processes += ran.processes.length + ran.settling.length + ran.imports.length
    this.total.processKills += ran.kills.processes
    this.total.postgresKills += ran.kills.postgres
    for (const { underWay } of ran.killed) this.total.attemptsLost += underWay
    this.total.users += plan.users
    for (const came of requests.values()) this.total.requests += came.length
    for (const { status = 0, refusing } of [...requests.values()].flat()) {
      if (refusing) this.total.refused++
      else if (status === 429) this.total.throttled++
    }
    for (const { what } of plan.troubles) this.troubles[what] = (this.troubles[what] ?? 0) + 1
    for (const { status } of deliveries.values()) this.ended[status] = (this.ended[status] ?? 0) + 1
  }

  async end(): Promise<void> {
    this.receiver.disconnect()
    await this.postgres.leave()
    rmSync(this.folder, { recursive: true, force: true })
  }
}

async function main(): Promise<number> {
  const rounds = chooseRounds(parseArgs({ options: roundOptions }).values)
  const { seed } = rounds
  console.log(`seed ${seed}`)
  const chaos = await Chaos.start(seed)
  const began = performance.now()
  try {
    await playRounds(rounds, async (round) => {
      await chaos.round(round)
      if (round % 10 === 0) console.log(`${round} rounds, ${chaos.total.violations} violations`)
    })
  } finally {
    await chaos.end()
  }
  const seconds = Math.round((performance.now() - began) / 1_000)
  console.log(JSON.stringify({ seed, seconds, ...chaos.total, ended: chaos.ended, troubles: chaos.troubles }))
  return chaos.total.violations > 0 ? 1 : 0
}

process.exitCode = await main()
