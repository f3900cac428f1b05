/**
 * One round: a fresh database, pushes of the real program, and beside them `serve`, `trigger`, imports and erasures; in the middle
 * of it the failovers. Then the program is run undisturbed until nothing is pending. What is left to check are the receiver's log,
 * the ledger, and how each process ended.
 */
import { writeFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Request, readLog } from '../chaos/check-round.ts'
import { Random } from '../chaos/random.ts'
import type { HookReceiver } from '../support/hook-receiver.ts'
import { type ProgramResult, startProgram } from '../support/program.ts'
import type { Cluster, Ridden } from './cluster.ts'
import { forgettable, forgettableHref, newHrefs, newListings, townListings, users } from './listings.ts'
import type { RoundPlan } from './plan-round.ts'
import { query, succeed } from './server.ts'

export interface Stage {
  cluster: Cluster
  receiverPort: number
  hooks: HookReceiver
  /** Of the users who subscribe by `serve`, in their order. */
  apiKeys: string[]
  folder: string
  seed: string
  round: number
  database: string
}

export interface Ran {
  args: string[]
  by: 'front' | 'hosts'
  endedMs: number
  result: ProgramResult
}

export interface RanRound {
  plan: RoundPlan
  pushes: Ran[]
  /** Triggers, imports and erasures beside the pushes. */
  beside: Ran[]
  /** The undisturbed ones at the end. */
  settling: Ran[]
  serve: ProgramResult
  ridden: Ridden[]
  /** Users whose subscribing was answered with 200, by their numbers. */
  subscribed: number[]
  /** Listings that were imported and that were erased, each with exit 0. */
  imported: string[]
  forgotten: string[]
  /** When the pushes had ended: weekly deliveries that are pending, users who have none. */
  left: { pending: number; owed: number }
  requests: Map<string, Request[]>
}

const programMsMax = 400_000

class Round {
  private readonly stage: Stage
  private readonly plan: RoundPlan
  private readonly random: Random
  private readonly ran: RanRound
  private pushing = true
  private files = 0

  constructor(stage: Stage, plan: RoundPlan) {
    this.stage = stage
    this.plan = plan
    this.random = new Random(stage.seed, stage.round, 'beside')
    const serve: ProgramResult = { code: null, signal: null, stdout: '', stderr: '', json: [] }
    this.ran = {
      ...{ plan, pushes: [], beside: [], settling: [], serve, ridden: [], subscribed: [], imported: [], forgotten: [] },
      left: { pending: 0, owed: 0 },
      requests: new Map(),
    }
  }

  private get log(): Map<string, Request[]> {
    return readLog(`${this.stage.folder}/${this.stage.round}.log`)
  }

  private start(args: string[], by: Ran['by'], sender: number, more: Record<string, string> = {}) {
    const { cluster, database, receiverPort, round } = this.stage
    return startProgram(args, {
      timeoutMs: programMsMax,
      env: {
        DATABASE_URL: cluster.url(by, database),
        LEADPUSH_RECEIVER_URL: `http://127.0.0.1:${receiverPort}/${round}/${sender}/calm`,
        LEADPUSH_CONCURRENCY: String(this.plan.concurrency),
        LEADPUSH_LEASE: this.plan.lease,
        LEADPUSH_RETRY_DELAY: '200ms',
        LEADPUSH_GUARD: 'off',
        LEADPUSH_ALLOW_INSECURE_HOOKS: '1',
        ...more,
      },
    })
  }

  private async run(args: string[], by: Ran['by'], sender: number, more: Record<string, string> = {}): Promise<Ran> {
    const result = await this.start([...args, '--json'], by, sender, more).done
    return { args, by, endedMs: Date.now(), result }
  }

  async play(): Promise<RanRound> {
    const { plan, ran } = this
    const serve = this.start(['serve', '--port', '0'], 'front', 900)
    const [, port = ''] = await serve.waitFor(/listening on http:\/\/127\.0\.0\.1:(\d+)/)
    const rate = { LEADPUSH_RATE: String(plan.rate / plan.pushes.length) }
    const pushes = Promise.all(plan.pushes.map((by, at) => this.run(['push', '--all'], by, at, rate)))
    const beside = [this.workBeside(), this.subscribe(port)]
    const ended = pushes.finally(() => {
      this.pushing = false
    })
    await this.failOver()
    ran.pushes = await ended
    ran.left = await this.findLeft()
    await Promise.all(beside)
    await this.settle(serve)
    ran.serve = await serve.done
    ran.requests = this.log
    return ran
  }

  private async failOver(): Promise<void> {
    const { plan, ran, stage } = this
    for (const failover of plan.failovers) {
      while (this.pushing && this.log.size < failover.atShare * plan.users) await sleep(100)
      if (!this.pushing) return
      ran.ridden.push(await stage.cluster.failOver(failover))
    }
  }

  private async findLeft(): Promise<RanRound['left']> {
    const [row] = await query(
      this.stage.cluster.primaryUrl(this.stage.database),
      `select (select count(*) from deliveries where status = 'pending' and kind = 'weekly')::integer as pending,
        (select count(*) from users u where subscribed and not exists (
          select from claims c where c.email = u.email and c.scope like 'weekly:%'))::integer as owed`,
    )
    return row as RanRound['left']
  }

  private write(lines: Iterable<string>): string {
    const path = `${this.stage.folder}/${this.stage.round}-${++this.files}.ndjson`
    writeFileSync(path, [...lines].join(''))
    return path
  }

  private async workBeside(): Promise<void> {
    const { random, ran } = this
    // what changes the bodies explains another one under the same key, once a database has lost the first
    const changes = this.plan.kind === 'synchronous'
    const works = ['trigger', 'leads', 'forget', 'users', ...(changes ? ['changed'] : [])] as const
    for (let nth = 0, forgotten = 0; this.pushing; nth++) {
      const by = random.one(['front', 'hosts'] as const)
      const what = works[nth % works.length]
      let ended: Ran
      if (what === 'forget') {
        const href = forgettableHref(forgotten++ % forgettable)
        ended = await this.run(['leads', 'forget', '--href', href], by, 910)
        if (ended.result.code === 0) ran.forgotten.push(href)
      } else if (what === 'leads') {
        ended = await this.run(['leads', 'import', this.write(newListings(nth))], by, 910)
        if (ended.result.code === 0) ran.imported.push(...newHrefs(nth))
      } else if (what === 'users') {
        ended = await this.run(['users', 'import', this.write(users())], by, 910)
      } else if (what === 'changed') {
        ended = await this.run(['leads', 'import', this.write(townListings(`change ${nth}`))], by, 910)
      } else ended = await this.run(['trigger'], by, 910)
      ran.beside.push(ended)
      await sleep(random.from(300, 2_500))
    }
  }

  private async subscribe(port: string): Promise<void> {
    for (const [at, key] of this.stage.apiKeys.entries()) {
      await sleep(this.random.from(500, 4_000))
      if (!this.pushing || at >= this.plan.users) return
      const body = JSON.stringify({ hookUrl: this.stage.hooks.url('/subscribed') })
      const url = `http://127.0.0.1:${port}/api/extern/zapier/subscribe?api_key=${key}`
      const answer = await fetch(url, { method: 'POST', body }).catch(() => undefined)
      await answer?.text().catch(() => '')
      if (answer?.status === 200) this.ran.subscribed.push(at)
    }
  }

  private async settle(serve: ReturnType<typeof startProgram>): Promise<void> {
    const isQuiet = async () => {
      const found = await query(
        this.stage.cluster.primaryUrl(this.stage.database),
        `select from subscription_pushes where owed_at is not null
         union all select from deliveries where status = 'pending' and kind = 'subscription' limit 1`,
      )
      return found.length === 0
    }
    // its children send what is owed
    for (const endAt = Date.now() + 30_000; Date.now() < endAt && !(await isQuiet()); ) await sleep(200)
    serve.kill('SIGTERM')
    for (let turn = 0; turn < 4; turn++) {
      const args = ['push', turn % 2 === 0 ? '--resume' : '--all']
      this.ran.settling.push(await this.run(args, 'front', 920 + turn))
      const { pending, owed } = await this.findLeft()
      if (turn >= 1 && pending + owed === 0) break
    }
    this.ran.settling.push(await this.run(['trigger'], 'front', 930))
  }
}

/** Plays the round, and lets `check` look at what it left, before it is gone. */
export async function runRound<T>(
  stage: Stage,
  plan: RoundPlan,
  template: string,
  check: (ran: RanRound) => Promise<T>,
) {
  const { cluster, database } = stage
  const maintenance = () => cluster.primaryUrl('postgres')
  // cloned through the log, a sequence gives numbers out that are not in the log: after a failover it gives them once more
  await succeed(() => query(maintenance(), `create database ${database} template ${template} strategy file_copy`))
  const others = `update users set subscribed = false where split_part(split_part(email, '@', 1), '-', 2)::integer >= $1`
  await query(cluster.primaryUrl(database), others, [plan.users])
  await cluster.prepare(plan.kind)
  const checked = await check(await new Round(stage, plan).play())
  await query(maintenance(), `drop database ${database} with (force)`)
  return checked
}
