/** One PostgreSQL server of a cluster: a data folder of its own, reached by TCP on loopback, killed and copied at will. */
import { readFile, readlink } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { type Account, runAs, spawnAs } from '../../src/db/embedded/account.ts'
import { hasEnded } from '../../src/db/embedded/postmaster.ts'
import { signal } from '../chaos/postgres.ts'
import { findFreePort } from '../support/sockets.ts'

/** Runs `statement` on a connection of its own, 20 s at most. */
export async function query(url: string, statement: string, values: unknown[] = []): Promise<pg.QueryResultRow[]> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 10_000, query_timeout: 20_000 })
  client.on('error', () => {})
  await client.connect()
  try {
    return (await client.query(statement, values)).rows
  } finally {
    await client.end().catch(() => {})
  }
}

/** Tries until `work` succeeds, by default 60 s at most. */
export async function succeed<T>(work: () => Promise<T>, msMax = 60_000): Promise<T> {
  for (const endAt = Date.now() + msMax; ; await sleep(50)) {
    try {
      return await work()
    } catch (error) {
      if (Date.now() > endAt) throw error
    }
  }
}

export interface Place {
  account: Account
  /** The folder of PostgreSQL's programs. */
  binaries: string
  /** Where the data folders are, which the account owns. */
  folder: string
}

/** Small enough to be copied in a moment; what a standby needs to catch up is kept. */
const settings = {
  listen_addresses: '127.0.0.1',
  unix_socket_directories: '',
  wal_level: 'replica',
  max_wal_senders: 10,
  max_replication_slots: 0,
  wal_keep_size: '256MB',
  min_wal_size: '32MB',
  max_wal_size: '256MB',
  hot_standby: 'on',
  synchronous_commit: 'on',
  wal_retrieve_retry_interval: '200ms',
  logging_collector: 'off',
}

const trust = ['local all all trust', 'host all all 127.0.0.1/32 trust', 'host replication all 127.0.0.1/32 trust', '']

export class Server {
  readonly name: string
  readonly port: number
  private readonly place: Place
  private child: ReturnType<typeof spawnAs> | undefined

  private constructor(place: Place, name: string, port: number) {
    this.place = place
    this.name = name
    this.port = port
  }

  static async make(place: Place, name: string): Promise<Server> {
    return new Server(place, name, await findFreePort())
  }

  get data(): string {
    return `${this.place.folder}/${this.name}`
  }

  url(database: string): string {
    return `postgresql://leadpush@127.0.0.1:${this.port}/${database}`
  }

  private async shell(script: string, args: string[] = [], input = ''): Promise<void> {
    const { code, output } = await runAs(this.place.account, '/bin/sh', ['-c', script, 'sh', this.data, ...args], input)
    if (code !== 0) throw new Error(`${script}: ${output}`)
  }

  /** Takes over the data of a server that is stopped, and starts. */
  async startFrom(data: string): Promise<void> {
    await this.shell('rm -rf "$1" && cp -R "$2" "$1" && rm -f "$1/postmaster.pid"', [data])
    await this.shell('cat > "$1/pg_hba.conf"', [], trust.join('\n'))
    await this.start()
  }

  /** Makes it a standby of `primary`, from a fresh copy; returns when it streams. */
  async follow(primary: Server): Promise<void> {
    const client = new pg.Client({ connectionString: primary.url('postgres'), query_timeout: 60_000 })
    client.on('error', () => {})
    await client.connect()
    try {
      await client.query("select pg_backup_start('copy', true)")
      // 1: a file changed or went while it was read, which the log of the backup mends
      await this.shell(
        `rm -rf "$1" && mkdir -m 700 "$1" && { tar -C "$2" --exclude='./pg_wal/*' --exclude='./postmaster.*' --warning=none -cf - . || [ $? = 1 ]; } |
         tar -C "$1" -xf - && mkdir -p "$1/pg_wal/archive_status"`,
        [primary.data],
      )
      const { rows } = await client.query('select labelfile from pg_backup_stop(false)')
      await this.shell('cat > "$1/backup_label"', [], rows[0].labelfile)
    } finally {
      await client.end().catch(() => {})
    }
    const from = `host=127.0.0.1 port=${primary.port} user=leadpush application_name=${this.name}`
    const lines = [`primary_conninfo = '${from}'`, '']
    await this.shell('cat > "$1/postgresql.auto.conf" && touch "$1/standby.signal"', [], lines.join('\n'))
    await this.start()
    await succeed(async () => {
      const found = await query(
        primary.url('postgres'),
        "select from pg_stat_replication where application_name = $1 and state = 'streaming'",
        [this.name],
      )
      if (found.length === 0) throw new Error(`${this.name} does not stream`)
    })
  }

  private async start(): Promise<void> {
    const { account, binaries } = this.place
    const all = Object.entries({ ...settings, port: this.port }).flatMap(([name, value]) => ['-c', `${name}=${value}`])
    const script = `programs=$1 data=$2; shift 2; exec "$programs/postgres" -D "$data" "$@" >> "$data.log" 2>&1`
    this.child = spawnAs(account, '/bin/sh', ['-c', script, 'sh', binaries, this.data, ...all], {
      detached: true,
      stdio: 'ignore',
    })
    this.child.on('error', () => {})
    this.child.unref()
    await succeed(() => query(this.url('postgres'), 'select'))
  }

  /** Returns when it has gone with all its sessions, which a killed server leaves behind: nothing is confirmed any more. */
  async stop(name: 'SIGKILL' | 'SIGQUIT' | 'SIGINT'): Promise<void> {
    const { child } = this
    if (!child?.pid || hasEnded(child)) return
    const pids = await this.findSessions(child.pid)
    signal(child.pid, name)
    for (const endAt = Date.now() + 20_000; !hasEnded(child) && Date.now() < endAt; ) await sleep(10)
    if (!hasEnded(child)) signal(child.pid, 'SIGKILL')
    for (const pid of pids) if (await this.owns(pid)) signal(pid, 'SIGKILL')
  }

  /** At once, its sessions left to themselves. */
  kill(): void {
    if (this.child?.pid && !hasEnded(this.child)) signal(this.child.pid, 'SIGKILL')
  }

  private async findSessions(pid: number): Promise<number[]> {
    const text = await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8').catch(() => '')
    return text.split(' ').filter(Boolean).map(Number)
  }

  private async owns(pid: number): Promise<boolean> {
    return (await readlink(`/proc/${pid}/cwd`).catch(() => '')) === this.data
  }
}
