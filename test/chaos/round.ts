/**
 * One round: a fresh database, processes of the real program that push at once, and what befalls them; then the program is
 * run undisturbed until nothing is pending. What is left to check is the ledger and the receiver's log.
 */
import { existsSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { sql } from 'kysely'
import { type Database, type OpenDatabase, openDatabase } from '../../src/db/open.ts'
import { type ProgramResult, type StartedProgram, startProgram } from '../support/program.ts'
import { importChanged, leadLines, userLines } from './imports.ts'
import type { PlannedImport, PlannedProcess, RoundPlan, Trouble } from './plan-round.ts'
import { type BreakablePostgres, signal } from './postgres.ts'
import { Random } from './random.ts'
import type { Command } from './receiver.ts'

export const retryDelayMs = 100
/** In place of the number of a process, where all post to one URL. */
export const sharedSender = -1

export interface RanProcess extends PlannedProcess {
  pid: number
  /** What was done to it. */
  befell: Trouble['what'][]
  result: ProgramResult
}

export interface RanImport extends PlannedImport {
  result: ProgramResult
}

export interface RanRound {
  plan: RoundPlan
  processes: RanProcess[]
  imports: RanImport[]
  /** The undisturbed runs at the end. */
  settling: RanProcess[]
  /** For each killed process: how many attempts of its were under way in the ledger. */
  killed: { process: number; concurrency: number; underWay: number }[]
  kills: { processes: number; postgres: number }
}

export interface Stage {
  postgres: BreakablePostgres
  tellReceiver(command: Command): void
  receiverPort: number
  logFolder: string
  round: number
  database: string
  seed: string
}

class Round {
  private readonly stage: Stage
  private readonly plan: RoundPlan
  private readonly url: string
  private readonly programs: StartedProgram[] = []
  private readonly befell: Trouble['what'][][] = []
  private readonly killed: RanRound['killed'] = []
  private readonly kills = { processes: 0, postgres: 0 }
  private postgresInHand: Promise<void> = Promise.resolve()
  private opened!: OpenDatabase
  private imports = 0

  constructor(stage: Stage, plan: RoundPlan) {
    this.stage = stage
    this.plan = plan
    this.url = stage.postgres.url(stage.database)
  }

  async run(opened: OpenDatabase): Promise<RanRound> {
    this.opened = opened
    const { plan } = this
    await opened.pool.query('update users set subscribed = false where id > $1', [plan.users])
    const starting = plan.processes.map(async (planned, at) => {
      await sleep(planned.atMs)
      this.befell[at] = []
      this.programs[at] = this.start(planned, at)
    })
    await starting[0]
    // as long as they take to begin, the import and the first request come at about the same time
    const importing = plan.imports.map((planned) => this.import(planned))
    await this.firstRequest()
    const troubles = plan.troubles.map(async (trouble) => {
      await sleep(trouble.atMs)
      await this.apply(trouble)
    })
    await Promise.all([...starting, ...troubles])
    await this.postgresInHand
    const results = await Promise.all(this.programs.map(({ done }) => done))
    const processes = results.map((result, at): RanProcess => {
      const planned = plan.processes[at] as PlannedProcess
      return { ...planned, pid: this.programs[at]?.pid ?? 0, befell: this.befell[at] ?? [], result }
    })
    const imports = await Promise.all(importing)
    const settling = await this.settle()
    return { plan, processes, imports, settling, killed: this.killed, kills: this.kills }
  }

  /** Troubles before anything is sent would find nothing to break. */
  private async firstRequest(): Promise<void> {
    const log = `${this.stage.logFolder}/${this.stage.round}.log`
    for (let tries = 0; tries < 2_000 && !existsSync(log); tries++) await sleep(10)
  }

  private start(planned: PlannedProcess, at: number, { temper, outage }: RoundPlan = this.plan): StartedProgram {
    const { receiverPort, round } = this.stage
    const sender = this.plan.sharesUrl ? sharedSender : at
    return startProgram(['push', ...planned.args, '--json'], {
      env: {
        DATABASE_URL: this.url,
        LEADPUSH_RECEIVER_URL: `http://127.0.0.1:${receiverPort}/${round}/${sender}/${temper}`,
        LEADPUSH_CONCURRENCY: String(planned.concurrency),
        LEADPUSH_LEASE: '1s',
        LEADPUSH_TIMEOUT: '600ms',
        LEADPUSH_RETRY_DELAY: `${retryDelayMs}ms`,
        LEADPUSH_OUTAGE: outage,
        LEADPUSH_GUARD: 'off',
      },
    })
  }

  /** All users, or all listings: it must hold up no push, and no push it. */
  private async import(planned: PlannedImport): Promise<RanImport> {
    await sleep(Math.max(0, planned.atMs))
    const random = new Random(this.stage.seed, this.stage.round, planned.what)
    const lines = planned.what === 'users' ? userLines(random) : leadLines(random, 'beside')
    const program = startProgram([planned.what, 'import', '-', '--json'], {
      env: { DATABASE_URL: this.url },
      input: [...lines].join(''),
    })
    if (planned.killedAfterMs !== undefined) {
      await Promise.race([sleep(planned.killedAfterMs), program.done])
      program.kill('SIGKILL')
    }
    return { ...planned, result: await program.done }
  }

  private async apply(trouble: Trouble): Promise<void> {
    switch (trouble.what) {
      case 'kill postgres':
        return this.oneAtATime(async () => {
          this.kills.postgres++
          await this.stage.postgres.kill(trouble.downMs)
        })
      case 'kill session':
      case 'end sessions':
      case 'freeze session':
        return await this.troubleSessions(trouble).catch(() => {}) // it is down already
      case 'import':
        return await importChanged(
          this.opened,
          new Random(this.stage.seed, this.stage.round),
          `change ${++this.imports}`,
        ).catch(
          () => {}, // the database went away under it
        )
      case 'close receiver':
      case 'refuse':
      case 'throttle':
        this.stage.tellReceiver({ mode: trouble.what, forMs: trouble.forMs })
        return await sleep(trouble.forMs)
      default:
        return await this.troubleProcess(trouble)
    }
  }

  private async oneAtATime(work: () => Promise<void>): Promise<void> {
    this.postgresInHand = this.postgresInHand.then(work)
    await this.postgresInHand
  }

  private async troubleProcess(trouble: Trouble & { process: number }): Promise<void> {
    const isAlive = ({ child }: StartedProgram) => child.exitCode === null && child.signalCode === null
    const at = [...this.programs.keys()].find((index) => {
      const program = this.programs[index]
      return index >= trouble.process && program !== undefined && isAlive(program)
    })
    const program = this.programs[at ?? -1]
    if (at === undefined || program === undefined) return
    this.befell[at]?.push(trouble.what)
    if (trouble.what === 'kill') {
      this.kills.processes++
      program.kill('SIGKILL')
      await program.done
      await this.countLost(at, program.pid).catch(() => {}) // no database to look into
    } else if (trouble.what === 'freeze') {
      program.kill('SIGSTOP')
      await sleep(trouble.forMs)
      program.kill('SIGCONT')
    } else {
      program.kill('SIGTERM')
      if (trouble.what === 'stop') return
      await sleep(20)
      program.kill('SIGTERM')
    }
  }

  private async troubleSessions(trouble: Trouble): Promise<void> {
    const others = 'from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()'
    if (trouble.what === 'end sessions') {
      await this.opened.pool.query(`select pg_terminate_backend(pid) ${others}`)
      return
    }
    const { rows } = await this.opened.pool.query(
      `select pid ${others} order by state = 'active' desc, random() limit 1`,
    )
    const pid = rows[0]?.pid as number | undefined
    if (pid === undefined) return
    if (trouble.what === 'kill session') {
      this.kills.postgres++
      signal(pid, 'SIGKILL')
    } else if (trouble.what === 'freeze session') {
      signal(pid, 'SIGSTOP')
      await sleep(trouble.forMs)
      signal(pid, 'SIGCONT')
    }
  }

  /** At once, before its lease is over and others take what it had. */
  private async countLost(process: number, pid: number): Promise<void> {
    const { rows } = await sql<{ n: number }>`
      select count(*) as n from deliveries d join workers w on w.id = d.worker_id
      where w.process_id = ${pid} and d.status = 'pending' and d.under_way
    `.execute(this.opened.db)
    const concurrency = this.plan.processes[process]?.concurrency ?? 0
    this.killed.push({ process, concurrency, underWay: rows[0]?.n ?? 0 })
  }

  private async settle(): Promise<RanProcess[]> {
    const ran: RanProcess[] = []
    const calm: RoundPlan = {
      ...this.plan,
      outage: '0s',
      temper: this.plan.temper === 'down' ? 'rough' : this.plan.temper,
    }
    for (let turn = 0; turn < 6; turn++) {
      const planned: PlannedProcess = {
        args: [(turn + this.stage.round) % 2 === 0 ? '--resume' : '--all'],
        concurrency: 6,
        atMs: 0,
      }
      const program = this.start(planned, 100 + turn, calm)
      ran.push({ ...planned, pid: program.pid, befell: [], result: await program.done })
      // a session that was killed at last makes the server recover
      const isWhole = planned.args[0] === '--all'
      if (isWhole && (await isSettled(this.opened.db))) break
    }
    return ran
  }
}

async function isSettled(db: Database): Promise<boolean> {
  const { rows } = await sql<{ settled: boolean }>`
    select not exists (select from deliveries where status = 'pending')
      and not exists (select from runs where not came_to_end and resumable and command = 'force')
      and not exists (select from users u where subscribed and not exists (
        select from claims c where c.email = u.email and c.scope like 'weekly:%')) as settled
  `.execute(db)
  return rows[0]?.settled ?? false
}

export async function runRound<T>(
  stage: Stage,
  plan: RoundPlan,
  check: (round: RanRound, db: Database) => Promise<T>,
): Promise<T> {
  const opened = await openDatabase({ databaseUrl: stage.postgres.url(stage.database), home: '' })
  try {
    return await check(await new Round(stage, plan).run(opened), opened.db)
  } finally {
    await opened.close()
  }
}
