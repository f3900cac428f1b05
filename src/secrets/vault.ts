/**
 * Encrypts and decrypts the secrets in the database (`LEADPUSH_SECRET_KEY`). Values are sealed with a data key, which is kept in
 * `data_keys`, sealed with the setting. So a change of the setting leaves no row that the processes of one setting cannot read.
 */

import { randomBytes } from 'node:crypto'
import { type RawBuilder, sql } from 'kysely'
import { codeOf, LeadpushError } from '../base/errors.ts'
import { locks } from '../db/locks.ts'
import type { Database } from '../db/open.ts'
import { rideOut } from '../db/patience.ts'
import { CipherKey, DamagedSecret, isSealed, keyIdOf, type Place } from './cipher.ts'

interface DataKeyRow {
  id: string
  wrapped: string
  current: boolean
}

const dataKeyOf = (id: string): Place => ({ kind: 'data key', owner: id })

const findRows = (db: Database): Promise<DataKeyRow[]> =>
  db.selectFrom('data_keys').select(['id', 'wrapped', 'current']).orderBy('created_at').execute()

const refused = (message: string, hint: string) =>
  new LeadpushError('usage', `LEADPUSH_SECRET_KEY: ${message}`, { hint })

const isNotSet = () =>
  refused(
    'is not set; receiver keys and signing secrets in this database are encrypted with it',
    'Set it, or LEADPUSH_SECRET_KEY_FILE, to the key that was in force.',
  )

const isWrong = () =>
  refused(
    'holds another key than the one that receiver keys and signing secrets in this database are encrypted with (not shown)',
    'Set it to the key that is in force. `leadpush settings rekey` changes the key.',
  )

const isDamaged = (error: unknown) =>
  new LeadpushError('failed', 'A key in the table data_keys cannot be decrypted: it was changed.', {
    hint: 'Restore the table from a backup; without it what is encrypted is lost, and users must be imported anew.',
    cause: error,
  })

const wasChanged = () =>
  refused(
    'what secrets are encrypted with was changed meanwhile',
    'Run the command again, with the key that is in force.',
  )

function unwrap(secretKey: CipherKey, { id, wrapped }: Pick<DataKeyRow, 'id' | 'wrapped'>): Buffer {
  try {
    return Buffer.from(secretKey.open(wrapped, dataKeyOf(id)), 'base64')
  } catch (error) {
    throw isDamaged(error)
  }
}

/** The SQLSTATE of `hold_data_key`. */
const keyWasChanged = 'LP001'

/** Reads and writes secrets. Without encryption they are stored as they are. */
export class Vault {
  private readonly db: Database | undefined
  private readonly secretKey: CipherKey | undefined
  private readonly keys = new Map<string, CipherKey>()
  private current: CipherKey | undefined

  /** Use `openVault`; without arguments nothing is encrypted, and nothing that is can be read. */
  constructor(db?: Database, secretKey?: CipherKey) {
    this.db = db
    this.secretKey = secretKey
  }

  /** Whether anything may be encrypted. */
  get isInUse(): boolean {
    return this.keys.size > 0
  }

  /** Whether a change of the key is not finished: values may be encrypted with another one than new values are. */
  get isChanging(): boolean {
    return this.keys.size > (this.current ? 1 : 0)
  }

  /** The id of the key that new values are encrypted with; undefined where they are stored as they are. */
  get currentId(): string | undefined {
    return this.current?.id
  }

  /** Throws `usage` where the setting is missing or is not the key in force, `failed` where a row is damaged. */
  load(rows: readonly DataKeyRow[]): void {
    this.current = undefined
    for (const { id, wrapped, current } of rows) {
      if (!this.secretKey) throw isNotSet()
      if (keyIdOf(wrapped) !== this.secretKey.id) throw isWrong()
      const key = new CipherKey(unwrap(this.secretKey, { id, wrapped }))
      this.keys.set(id, key)
      if (current) this.current = key
    }
  }

  /** The text to store: encrypted, or as it is. */
  seal(plain: string, place: Place): string {
    return this.current?.seal(plain, place) ?? plain
  }

  /**
   * The secret that is stored. Throws `usage` where it is encrypted with a key that this process has not; `DamagedSecret` where the
   * stored text was changed or belongs to another row.
   */
  async open(stored: string, place: Place): Promise<string> {
    if (!isSealed(stored)) return stored
    const id = keyIdOf(stored)
    // encryption may have begun, or its key may have changed, after this process began
    if (!this.keys.has(id)) await this.reload()
    const key = this.keys.get(id)
    if (!key) throw new DamagedSecret(`a stored ${place.kind} cannot be decrypted: its key is not in the database`)
    return key.open(stored, place)
  }

  /** What `key_mark` makes of that receiver key as it is stored now. */
  markReceiverKey(plain: string): string {
    return this.current?.mark(plain, { kind: 'receiver key' }) ?? plain
  }

  private async reload(): Promise<void> {
    const { db } = this
    if (!db || !this.secretKey) throw isNotSet()
    this.load(await findRows(db))
  }

  /**
   * SQL for a statement that stores sealed values, true: keeps the key from being changed until its transaction ends. Run it by
   * `store`.
   */
  get holdsKey(): RawBuilder<boolean> {
    return sql`hold_data_key(${locks.dataKeys}, ${this.currentId ?? null})`
  }

  /** Runs statements with `holdsKey`. Throws `usage` where the key was changed since this process read it. */
  async store<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work()
    } catch (error) {
      if (codeOf(error) !== keyWasChanged) throw error
      throw this.secretKey ? wasChanged() : isNotSet()
    }
  }

  /** As `holdsKey`, for a transaction with further statements, before the first of them. */
  async hold(transaction: Database): Promise<void> {
    await this.store(() => sql`select ${this.holdsKey}`.execute(transaction))
  }
}

/** As `open`; undefined where the stored text is damaged. */
export async function openIntact(vault: Vault, stored: string, place: Place): Promise<string | undefined> {
  try {
    return await vault.open(stored, place)
  } catch (error) {
    if (error instanceof DamagedSecret) return undefined
    throw error
  }
}

/** Seals nothing, and opens only what is stored as it is. */
export const plainVault = new Vault()

/** Whether the schema has come so far that anything can be encrypted. */
export async function hasDataKeys(db: Database): Promise<boolean> {
  const found = sql<{ found: boolean }>`select to_regclass('data_keys') is not null as found`
  return (await found.execute(db)).rows[0]?.found ?? false
}

export interface SecretSettings {
  secretKey?: Buffer | undefined
}

/**
 * The vault of a database, for a command that reads or writes secrets. `begins`: a set key is in force from now on, even if nothing
 * was encrypted before. Throws `usage` where secrets are encrypted and the setting is missing or wrong.
 */
export async function openVault(
  db: Database,
  { secretKey }: SecretSettings,
  { begins = false }: { begins?: boolean } = {},
): Promise<Vault> {
  const key = secretKey && new CipherKey(secretKey)
  const vault = new Vault(db, key)
  let rows = await findRows(db)
  if (rows.length === 0 && key && begins) {
    await rideOut(db, () =>
      db.transaction().execute(async (transaction) => {
        await holdAlone(transaction)
        if ((await findRows(transaction)).length === 0) await addDataKey(transaction, key)
      }),
    )
    rows = await findRows(db)
  }
  vault.load(rows)
  return vault
}

/** Waits until no transaction stores sealed values, and lets none begin until this one ends. */
export const holdAlone = (transaction: Database) =>
  sql`select pg_advisory_xact_lock(${locks.dataKeys})`.execute(transaction)

async function addDataKey(transaction: Database, secretKey: CipherKey): Promise<void> {
  const secret = randomBytes(32)
  const { id } = new CipherKey(secret)
  const wrapped = secretKey.seal(secret.toString('base64'), dataKeyOf(id))
  await transaction.insertInto('data_keys').values({ id, wrapped, current: true }).execute()
}

/**
 * Changes the setting from `from` to `to` in one transaction: every data key is sealed with `to`, and a new one is in force. Without
 * `to` none is in force: values are to be decrypted. Throws `usage` where `from` is missing or wrong.
 */
export async function changeSecretKey(db: Database, from: Buffer | undefined, to: Buffer | undefined): Promise<void> {
  await rideOut(db, () =>
    db.transaction().execute(async (transaction) => {
      await holdAlone(transaction)
      const rows = await findRows(transaction)
      const [old, key] = [from, to].map((secret) => secret && new CipherKey(secret))
      // an earlier try whose answer was lost, or that was killed later, may have done it
      const isDone = key && rows.length > 0 && rows.every(({ wrapped }) => keyIdOf(wrapped) === key.id)
      if (isDone && rows.some(({ current }) => current)) return
      if (!isDone) new Vault(db, old).load(rows)
      await sql`update data_keys set current = false where current`.execute(transaction)
      if (!key) return
      if (!isDone) {
        for (const { id, wrapped } of rows) {
          const secret = unwrap(old as CipherKey, { id, wrapped })
          const anew = { wrapped: key.seal(secret.toString('base64'), dataKeyOf(id)) }
          await transaction.updateTable('data_keys').set(anew).where('id', '=', id).execute()
        }
      }
      await addDataKey(transaction, key)
    }),
  )
}
