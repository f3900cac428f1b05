/**
 * The cipher of secrets at rest: AES-256-GCM with a random nonce. A sealed text is `sealed:KEY:PAYLOAD`, or `sealed:KEY:PAYLOAD:MARK`
 * where equal values must be found without decrypting; it is bound to what it is and whose it is, so that it opens nowhere else.
 */
import { createCipheriv, createDecipheriv, createHmac, hkdfSync, randomBytes } from 'node:crypto'

/** What a secret is, and whose: one that is moved to another row does not open there. */
export interface Place {
  kind: 'receiver key' | 'signing secret' | 'data key' | 'erasure key'
  owner: string
}

/** The place of a user's receiver key. `email` is the user's as it is stored. */
export const receiverKeyOf = (email: string): Place => ({ kind: 'receiver key', owner: email })

/** The place of the signing secrets of a user's integrations. */
export const signingSecretsOf = (userId: number): Place => ({ kind: 'signing secret', owner: String(userId) })

/** A sealed text is no longer what was sealed, or stands in another place. */
export class DamagedSecret extends Error {
  override readonly name = 'DamagedSecret'
}

const prefix = 'sealed:'
const cipherName = 'aes-256-gcm'
const nonceBytes = 12
const tagBytes = 16
const markBytes = 16

/** Longer than any receiver key: one that begins with the prefix is not taken for a sealed text. */
const sealedCharsMin = 60

/** Whether a stored text is sealed; otherwise it is the secret itself. */
export const isSealed = (stored: string) => stored.length >= sealedCharsMin && stored.startsWith(prefix)

/** The id of the key of a sealed text. */
export const keyIdOf = (sealed: string) => sealed.split(':')[1] ?? ''

/** What equal receiver keys have in common: of a sealed one its mark. SQL: `key_mark`. */
export const markOf = (stored: string) => (isSealed(stored) ? (stored.split(':')[3] ?? '') : stored)

/** What begins every text that is sealed with the key of this id. */
export const prefixOf = (keyId: string) => `${prefix}${keyId}:`

/** A key of 256 bits, with what follows from it. */
export class CipherKey {
  /** 16 hexadecimal digits, which tell nothing about the key. */
  readonly id: string
  private readonly cipherKey: Buffer
  private readonly markKey: Buffer

  constructor(secret: Buffer) {
    const derive = (purpose: string, bytes: number) =>
      Buffer.from(hkdfSync('sha256', secret, '', `leadpush ${purpose}`, bytes))
    this.id = derive('key id', 8).toString('hex')
    this.cipherKey = derive('cipher', 32)
    this.markKey = derive('mark', 32)
  }

  seal(plain: string, place: Place): string {
    const mark = this.mark(plain, place)
    const nonce = randomBytes(nonceBytes)
    const cipher = createCipheriv(cipherName, this.cipherKey, nonce).setAAD(this.bind(place, mark))
    const text = Buffer.concat([nonce, cipher.update(plain, 'utf8'), cipher.final(), cipher.getAuthTag()])
    return `${prefixOf(this.id)}${text.toString('base64url')}${mark === '' ? '' : `:${mark}`}`
  }

  /** Throws `DamagedSecret` where the text was not sealed with this key for this place. */
  open(sealed: string, place: Place): string {
    const [, , payload = '', mark = ''] = sealed.split(':')
    const text = Buffer.from(payload, 'base64url')
    try {
      const nonce = text.subarray(0, nonceBytes)
      const cipher = createDecipheriv(cipherName, this.cipherKey, nonce, { authTagLength: tagBytes })
      cipher.setAAD(this.bind(place, mark)).setAuthTag(text.subarray(-tagBytes))
      return Buffer.concat([cipher.update(text.subarray(nonceBytes, -tagBytes)), cipher.final()]).toString()
    } catch (error) {
      throw new DamagedSecret(`a stored ${place.kind} cannot be decrypted: it was changed`, { cause: error })
    }
  }

  /** A keyed hash of a receiver key: equal keys of users are found by it. Other secrets are random, and have none. */
  mark(plain: string, { kind }: Pick<Place, 'kind'>): string {
    if (kind !== 'receiver key') return ''
    const hash = createHmac('sha256', this.markKey).update(plain).digest()
    return hash.subarray(0, markBytes).toString('base64url')
  }

  private bind({ kind, owner }: Place, mark: string): Buffer {
    return Buffer.from(JSON.stringify([this.id, kind, owner, mark]))
  }
}
