/**
 * A primary with a synchronous and an asynchronous standby, the addresses by which clients come (one that follows the primary, and
 * one for each server), and the failovers: the primary goes, a standby is promoted, the others become its standbys anew.
 */
import { chown, mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { findAccount } from '../../src/db/embedded/account.ts'
import { findBinaries } from '../../src/db/embedded/binaries.ts'
import { findPaths } from '../../src/db/embedded/paths.ts'
import { stopServer } from '../../src/db/embedded/postmaster.ts'
import { startThrowAway, type ThrowAwayServer } from '../../src/db/embedded/throw-away.ts'
import { signal } from '../chaos/postgres.ts'
import { Front } from './front.ts'
import type { Failover, Kind } from './plan-round.ts'
import { query, Server, succeed } from './server.ts'

/** When the address went, and when it led to a primary again, by the clock of the receiver's log. */
export interface Ridden {
  failover: Failover
  wentMs: number
  backMs: number
}

/** What a round needs of a cluster, however it is made. */
export interface Cluster {
  /** What `DATABASE_URL` may be: the address that follows the primary, or all servers. */
  url(by: 'front' | 'hosts', database: string): string
  /** The primary itself: what befalls the addresses does not befall it. */
  primaryUrl(database: string): string
  /** Makes the cluster synchronous or asynchronous; returns when the standbys have all that is confirmed. */
  prepare(kind: Kind): Promise<void>
  failOver(failover: Failover): Promise<Ridden>
  leave(): Promise<void>
}

const names = ['a', 'b', 'c']

export class OwnCluster implements Cluster {
  private readonly home: ThrowAwayServer
  private readonly servers: Server[]
  private readonly fronts: Front[]
  private readonly front: Front
  private primary: Server
  private kind: Kind = 'asynchronous'

  private constructor(home: ThrowAwayServer, servers: Server[], fronts: Front[], front: Front) {
    this.home = home
    this.servers = servers
    this.fronts = fronts
    this.front = front
    this.primary = servers[0] as Server
  }

  static async start(): Promise<OwnCluster> {
    const home = await startThrowAway()
    const paths = await findPaths(home.home)
    await stopServer(paths)
    const account = await findAccount(paths)
    const { folder: binaries } = await findBinaries(account, paths.home, '.new-0-cluster')
    // beside the server from which they are made, whose watcher removes them too
    const place = { account, binaries, folder: join(paths.home, 'nodes') }
    await mkdir(place.folder)
    await chown(place.folder, account.uid, account.gid)
    const servers = await Promise.all(names.map((name) => Server.make(place, name)))
    const fronts = await Promise.all(servers.map(({ port }) => Front.start(port)))
    const front = await Front.start(servers[0]?.port ?? 0)
    const cluster = new OwnCluster(home, servers, fronts, front)
    // those that outlive it would write again what the watcher removes
    process.on('exit', () => {
      for (const server of servers) server.kill()
    })
    try {
      await cluster.primary.startFrom(paths.data)
      await cluster.restore()
      return cluster
    } catch (error) {
      await cluster.leave()
      throw error
    }
  }

  url(by: 'front' | 'hosts', database: string): string {
    if (by === 'front') return `postgresql://leadpush@127.0.0.1:${this.front.port}/${database}`
    const hosts = this.fronts.map(({ port }) => `127.0.0.1:${port}`).join(',')
    return `postgresql://leadpush@${hosts}/${database}?target_session_attrs=read-write`
  }

  primaryUrl(database: string): string {
    return this.primary.url(database)
  }

  private get standbys(): [Server, Server] {
    return this.servers.filter((server) => server !== this.primary) as [Server, Server]
  }

  /** Every server but the primary becomes its standby. */
  private async restore(): Promise<void> {
    for (const server of this.standbys) {
      await server.stop('SIGKILL')
      await server.follow(this.primary)
    }
    await this.prepare(this.kind)
  }

  async prepare(kind: Kind): Promise<void> {
    this.kind = kind
    const url = this.primary.url('postgres')
    const wanted = kind === 'synchronous' ? this.standbys[0].name : ''
    await query(url, `alter system set synchronous_standby_names = '${wanted}'`)
    await query(url, 'select pg_reload_conf()')
    const standbys = this.standbys.map(({ name }) => name)
    const count = async (holds: string, values: unknown[]) => {
      const found = await query(url, `select from pg_stat_replication where application_name = any ($1) and ${holds}`, [
        standbys,
        ...values,
      ])
      if (found.length < standbys.length) throw new Error('the standbys lag')
    }
    // from then on each commit is waited for; those before must be there too
    await succeed(() => count("(sync_state = 'sync') = (application_name = $2)", [wanted]))
    const [row] = await query(url, 'select pg_current_wal_insert_lsn() as lsn')
    await succeed(() => count('flush_lsn >= $2', [row?.lsn]))
  }

  /** Nothing reaches the asynchronous standby any more, as where its network is slow: that much will be lost. */
  private async holdBack(standby: Server, ms: number): Promise<void> {
    if (ms === 0) return
    const rows = await query(
      this.primary.url('postgres'),
      'select pid from pg_stat_replication where application_name = $1',
      [standby.name],
    )
    for (const { pid } of rows) signal(pid, 'SIGSTOP')
    await sleep(ms)
  }

  async failOver(failover: Failover): Promise<Ridden> {
    const { how, address, awayMs, lagMs } = failover
    const [next, other] = this.standbys
    if (how !== 'none') await this.holdBack(next, lagMs)
    const wentMs = Date.now()
    const reachable = sleep(awayMs)
    for (const front of [this.front, ...this.fronts]) address === 'refuses' ? front.refuse() : front.silence()
    const open = () => {
      this.front.open(this.primary.port)
      for (const [at, front] of this.fronts.entries()) front.open(this.servers[at]?.port ?? 0)
    }
    if (how === 'none') {
      await reachable
      open()
      return { failover, wentMs, backMs: Date.now() }
    }
    await this.primary.stop(({ kill: 'SIGKILL', immediate: 'SIGQUIT', fast: 'SIGINT' } as const)[how])
    await query(next.url('postgres'), 'select pg_promote(true, 60)')
    this.primary = next
    await other.stop('SIGKILL')
    const restored = this.restore()
    restored.catch(() => {})
    await reachable
    open()
    const backMs = Date.now()
    await restored
    return { failover, wentMs, backMs }
  }

  async leave(): Promise<void> {
    await Promise.all(this.servers.map((server) => server.stop('SIGKILL')))
    await Promise.all([this.front, ...this.fronts].map((front) => front.leave()))
    await this.home.leave()
  }
}
