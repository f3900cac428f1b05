/**
 * Decides whether first attempts go out compressed (contract 4.17): by the setting and, with `auto`, by the receiver's answers to
 * this process or, through the table `receivers`, to another.
 */
import { sql } from 'kysely'
import { gzipRefusalMs } from '../base/limits.ts'
import { rideOut } from '../db/away.ts'
import type { Database } from '../db/open.ts'
import type { AttemptOutcome } from '../deliveries/attempt.ts'
import { hashReceiver } from './known-trouble.ts'

export type CompressMode = 'auto' | 'gzip' | 'off'

/** The decision for the attempts of one process. */
export class Compression {
  private readonly db: Database
  private readonly id: Buffer
  private readonly mode: CompressMode
  private takesGzip = false
  /** A 415 came lately: no `Accept-Encoding` counts then. */
  private isRefused = false

  constructor(db: Database, receiverUrl: string, mode: CompressMode) {
    this.db = db
    this.id = hashReceiver(receiverUrl)
    this.mode = mode
  }

  get isOn(): boolean {
    return this.mode === 'gzip' || (this.mode === 'auto' && this.takesGzip)
  }

  /** Reads what earlier runs and other machines found out. */
  async begin(): Promise<void> {
    if (this.mode !== 'auto') return
    const { rows } = await rideOut(() =>
      sql<{ takes: boolean; refused: boolean }>`
        select takes_gzip as takes,
          coalesce(refused_gzip_at > now() - ${gzipRefusalMs} * interval '1 millisecond', false) as refused
        from receivers where url_sha256 = ${this.id}
      `.execute(this.db),
    )
    this.takesGzip = rows[0]?.takes ?? false
    this.isRefused = rows[0]?.refused ?? false
  }

  /** Takes the outcome of an attempt. Returns a promise where it says something new, which others can read once that settles. */
  note({ httpStatus, acceptsGzip }: AttemptOutcome): Promise<void> | undefined {
    if (this.mode !== 'auto') return undefined
    if (httpStatus === 415) {
      if (!this.takesGzip) return undefined
      this.takesGzip = false
      this.isRefused = true
      return this.record(false)
    }
    if (!acceptsGzip || this.takesGzip || this.isRefused) return undefined
    this.takesGzip = true
    return this.record(true)
  }

  private async record(takes: boolean): Promise<void> {
    await rideOut(() =>
      sql`
        insert into receivers as r (url_sha256, takes_gzip, refused_gzip_at)
        values (${this.id}, ${takes}, case when not ${takes} then now() end)
        on conflict (url_sha256) do update set
          takes_gzip = excluded.takes_gzip
            and coalesce(r.refused_gzip_at <= now() - ${gzipRefusalMs} * interval '1 millisecond', true),
          refused_gzip_at = coalesce(excluded.refused_gzip_at, r.refused_gzip_at)
      `.execute(this.db),
    )
  }
}
