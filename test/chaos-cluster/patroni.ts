/**
 * The same cluster made by Debian's `patroni`, `etcd-server` and `haproxy` at their defaults: Patroni finds out that the primary has
 * gone and decides who takes over, HAProxy follows it. `fast` is a switchover, `immediate` a failover by command, a kill takes
 * Patroni along with its server, as where a machine dies.
 */
import type { ChildProcess } from 'node:child_process'
import { existsSync } from 'node:fs'
import { chmod, chown, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Account, findAccount, runAs, spawnAs } from '../../src/db/embedded/account.ts'
import { findPaths } from '../../src/db/embedded/paths.ts'
import { signal } from '../chaos/postgres.ts'
import { findFreePort } from '../support/sockets.ts'
import type { Cluster, Ridden } from './cluster.ts'
import type { Failover, Kind } from './plan-round.ts'
import { query, succeed } from './server.ts'

const binaries = '/usr/lib/postgresql/15/bin'
const programs = { patroni: '/usr/bin/patroni', etcd: '/usr/bin/etcd', haproxy: '/usr/sbin/haproxy' }
/** A member that was killed starts, recovers, is wound back and follows, each in Patroni's turns of 10 s. */
const rejoinMsMax = 240_000
const control = '/usr/bin/patronictl'

interface Member {
  name: string
  port: number
  apiPort: number
  data: string
  config: string
  child?: ChildProcess
}

const address = (port: number) => `127.0.0.1:${port}`

/** Patroni's defaults, but for what a cluster on one machine needs; JSON is YAML too. */
const memberConfig = ({ name, port, apiPort, data }: Member, etcdPort: number, folder: string) => ({
  scope: 'chaos',
  name,
  restapi: { listen: address(apiPort), connect_address: address(apiPort) },
  etcd3: { host: address(etcdPort) },
  bootstrap: {
    dcs: { postgresql: { use_pg_rewind: true, parameters: { wal_keep_size: '256MB', max_wal_size: '256MB' } } },
    initdb: [{ encoding: 'UTF8' }, { auth: 'trust' }],
  },
  postgresql: {
    listen: address(port),
    connect_address: address(port),
    data_dir: data,
    bin_dir: binaries,
    pgpass: join(folder, `pgpass-${name}`),
    authentication: { superuser: { username: 'leadpush' }, replication: { username: 'leadpush' } },
    pg_hba: ['host all all 127.0.0.1/32 trust', 'host replication all 127.0.0.1/32 trust'],
    parameters: { unix_socket_directories: folder, max_connections: 100 },
  },
})

/** As in Patroni's documentation. */
const proxyConfig = (port: number, members: Member[]) => `
global
  maxconn 200
defaults
  mode tcp
  retries 2
  timeout client 30m
  timeout connect 4s
  timeout server 30m
  timeout check 5s
listen primary
  bind ${address(port)}
  option httpchk OPTIONS /primary
  http-check expect status 200
  default-server inter 3s fall 3 rise 2 on-marked-down shutdown-sessions
${members.map((member) => `  server ${member.name} ${address(member.port)} maxconn 100 check port ${member.apiPort}`).join('\n')}
`

export class PatroniCluster implements Cluster {
  private readonly folder: string
  private readonly account: Account
  private readonly members: Member[]
  private readonly frontPort: number
  private readonly others: ChildProcess[] = []
  private primary: Member

  private constructor(folder: string, account: Account, members: Member[], frontPort: number) {
    this.folder = folder
    this.account = account
    this.members = members
    this.frontPort = frontPort
    this.primary = members[0] as Member
  }

  static async start(): Promise<PatroniCluster> {
    const missing = Object.entries({ ...programs, postgres: `${binaries}/postgres` }).filter(
      ([, path]) => !existsSync(path),
    )
    if (missing.length > 0)
      throw new Error(
        `not installed: ${missing.map(([name]) => name).join(', ')} (apt-get install patroni etcd-server haproxy)`,
      )
    const home = await mkdtemp(join(tmpdir(), 'leadpush-patroni-'))
    await chmod(home, 0o711)
    const account = await findAccount(await findPaths(home))
    const folder = join(home, 'of-servers')
    await mkdir(folder)
    await chown(folder, account.uid, account.gid)
    const [etcdPort, peerPort, frontPort] = [await findFreePort(), await findFreePort(), await findFreePort()]
    const members: Member[] = []
    for (const name of ['a', 'b', 'c']) {
      const [data, config] = [join(folder, name), join(home, `${name}.yml`)]
      const member = { name, port: await findFreePort(), apiPort: await findFreePort(), data, config }
      await writeFile(config, JSON.stringify(memberConfig(member, etcdPort, folder)))
      members.push(member)
    }
    const cluster = new PatroniCluster(home, account, members, frontPort)
    process.on('exit', () => cluster.killAll())
    const proxy = join(home, 'haproxy.cfg')
    await writeFile(proxy, proxyConfig(frontPort, members))
    const etcdUrls = ['client', 'peer'].flatMap((of) => {
      const url = `http://${address(of === 'client' ? etcdPort : peerPort)}`
      return of === 'client'
        ? ['--listen-client-urls', url, '--advertise-client-urls', url]
        : ['--listen-peer-urls', url, '--initial-advertise-peer-urls', url, '--initial-cluster', `default=${url}`]
    })
    cluster.others.push(cluster.spawn(programs.etcd, ['--data-dir', join(folder, 'etcd'), ...etcdUrls]))
    try {
      for (const member of members) cluster.startMember(member)
      await cluster.findPrimary()
      cluster.others.push(cluster.spawn(programs.haproxy, ['-f', proxy]))
      return cluster
    } catch (error) {
      await cluster.leave()
      throw error
    }
  }

  private spawn(file: string, args: string[]): ChildProcess {
    const child = spawnAs(this.account, file, args, { stdio: 'ignore' })
    child.on('error', () => {})
    return child
  }

  private startMember(member: Member): void {
    member.child = this.spawn(programs.patroni, [member.config])
  }

  url(by: 'front' | 'hosts', database: string): string {
    if (by === 'front') return `postgresql://leadpush@${address(this.frontPort)}/${database}`
    const hosts = this.members.map(({ port }) => address(port)).join(',')
    return `postgresql://leadpush@${hosts}/${database}?target_session_attrs=read-write`
  }

  primaryUrl(database: string): string {
    return `postgresql://leadpush@${address(this.primary.port)}/${database}`
  }

  /** Patroni takes up to a minute for a decision. */
  private async findPrimary(): Promise<void> {
    for (const endAt = Date.now() + 120_000; Date.now() < endAt; await sleep(100)) {
      for (const member of this.members) {
        const answer = await fetch(`http://${address(member.apiPort)}/primary`).catch(() => undefined)
        await answer?.text()
        if (answer?.status !== 200) continue
        this.primary = member
        return
      }
    }
    throw new Error('Patroni finds no primary')
  }

  private async tell(...args: string[]): Promise<void> {
    const { code, output } = await runAs(this.account, control, ['-c', this.primary.config, ...args])
    if (code !== 0) throw new Error(`patronictl ${args.join(' ')}: ${output}`)
  }

  async prepare(kind: Kind): Promise<void> {
    await this.tell('edit-config', 'chaos', '--force', '--quiet', '--set', `synchronous_mode=${kind === 'synchronous'}`)
    const url = this.primaryUrl('postgres')
    await succeed(async () => {
      const found = await query(url, "select sync_state from pg_stat_replication where state = 'streaming'")
      const synchronous = found.filter(({ sync_state }) => sync_state === 'sync').length
      const wanted = kind === 'synchronous' ? 1 : 0
      if (found.length < 2 || synchronous !== wanted) throw new Error('the standbys lag')
      // a primary that is killed before Patroni has noted who is synchronous has no successor
      if ((await this.countSynchronous()) !== wanted) throw new Error('Patroni lags')
    }, rejoinMsMax)
    const [row] = await query(url, 'select pg_current_wal_insert_lsn() as lsn')
    await succeed(async () => {
      const found = await query(url, 'select from pg_stat_replication where flush_lsn >= $1', [row?.lsn])
      if (found.length < 2) throw new Error('the standbys lag')
    })
    await this.waitForFront()
  }

  /** The synchronous standbys that Patroni would promote. */
  private async countSynchronous(): Promise<number> {
    const answer = await fetch(`http://${address(this.primary.apiPort)}/cluster`)
    const { members } = (await answer.json()) as { members: { role: string }[] }
    return members.filter(({ role }) => role === 'sync_standby').length
  }

  private async waitForFront(): Promise<void> {
    await succeed(async () => {
      const [row] = await query(this.url('front', 'postgres'), 'select pg_is_in_recovery() as standby')
      if (row?.standby) throw new Error('the proxy leads to a standby')
    })
  }

  private async kill({ child, data }: Member): Promise<void> {
    const pid = Number.parseInt(await readFile(join(data, 'postmaster.pid'), 'utf8').catch(() => ''), 10)
    if (child?.pid) signal(child.pid, 'SIGKILL')
    if (!pid) return
    const children = await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8').catch(() => '')
    for (const each of [pid, ...children.split(' ').filter(Boolean).map(Number)]) signal(each, 'SIGKILL')
  }

  async failOver(failover: Failover): Promise<Ridden> {
    const old = this.primary
    const kind = (await query(this.primaryUrl('postgres'), 'show synchronous_standby_names'))[0]
      ?.synchronous_standby_names
    const others = this.members.filter((member) => member !== old)
    const next = others.find(({ name }) => String(kind).includes(name)) ?? (others[0] as Member)
    const wentMs = Date.now()
    if (failover.how === 'kill') await this.kill(old)
    else if (failover.how === 'immediate') await this.tell('failover', 'chaos', '--force', '--candidate', next.name)
    else await this.tell('switchover', 'chaos', '--force', '--master', old.name, '--candidate', next.name)
    do {
      await sleep(100)
      await this.findPrimary()
    } while (this.primary === old)
    await this.waitForFront()
    const backMs = Date.now()
    if (failover.how === 'kill') this.startMember(old)
    await this.prepare(kind === '' ? 'asynchronous' : 'synchronous')
    const how = failover.how === 'none' ? 'fast' : failover.how
    return { failover: { ...failover, how, address: 'refuses' }, wentMs, backMs }
  }

  private killAll(): void {
    for (const child of [...this.members.map(({ child }) => child), ...this.others])
      if (child?.pid) signal(child.pid, 'SIGKILL')
  }

  async leave(): Promise<void> {
    await Promise.all(this.members.map((member) => this.kill(member)))
    this.killAll()
    await rm(this.folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 })
  }
}
