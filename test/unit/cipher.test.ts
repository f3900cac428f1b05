/** Sealing secrets: values open with their own key, and errors say why others do not. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import {
  CipherKey,
  DamagedSecret,
  isSealed,
  keyIdOf,
  markOf,
  receiverKeyOf,
  signingSecretsOf,
} from '../../src/secrets/cipher.ts'

const key = new CipherKey(randomBytes(32))
const place = receiverKeyOf('user@example.com')
const refuses = (work: () => unknown) =>
  assert.throws(work, (error: Error) => error instanceof DamagedSecret && !error.message.includes('the-key'))

test('a sealed value opens again: the shortest and the longest receiver key, and a signing secret', () => {
  for (const plain of ['!', 'k'.repeat(50), 'sealed:0123456789abcdef:0123456789abcdef']) {
    const sealed = key.seal(plain, place)
    assert.ok(isSealed(sealed))
    assert.ok(!isSealed(plain))
    assert.ok(!sealed.includes(plain) || plain === '!')
    assert.equal(key.open(sealed, place), plain)
  }
  const secret = `whsec_${randomBytes(32).toString('base64')}`
  assert.equal(key.open(key.seal(secret, signingSecretsOf(1)), signingSecretsOf(1)), secret)
})

test('one value is sealed differently each time, and equal receiver keys have one mark', () => {
  const [one, other] = [key.seal('the-key', place), key.seal('the-key', receiverKeyOf('b@example.com'))]
  assert.notEqual(one.split(':')[2], key.seal('the-key', place).split(':')[2])
  assert.equal(markOf(one), markOf(other))
  assert.notEqual(markOf(one), markOf(key.seal('the-kez', place)))
  assert.equal(markOf('the-key'), 'the-key')
  assert.equal(markOf(one), key.mark('the-key', place))
  assert.notEqual(markOf(one), new CipherKey(randomBytes(32)).mark('the-key', place))
})

test('another key opens nothing, and its id is another', () => {
  const other = new CipherKey(randomBytes(32))
  const sealed = key.seal('the-key', place)
  assert.equal(keyIdOf(sealed), key.id)
  assert.match(key.id, /^[0-9a-f]{16}$/)
  assert.notEqual(other.id, key.id)
  refuses(() => other.open(sealed, place))
  refuses(() => other.open(sealed.replace(key.id, other.id), place))
})

test('a changed character, a lost one, or a mark of another value opens nothing', () => {
  const sealed = key.seal('the-key', place)
  for (let at = sealed.indexOf(':', 7) + 1; at < sealed.length; at++) {
    if (sealed[at] === ':') continue
    // the last character of base64url may have bits that stand for nothing
    const isLast = sealed[at + 1] === ':' || at === sealed.length - 1
    if (!isLast)
      refuses(() => key.open(`${sealed.slice(0, at)}${sealed[at] === 'A' ? 'B' : 'A'}${sealed.slice(at + 1)}`, place))
    refuses(() => key.open(sealed.slice(0, at), place))
  }
  refuses(() => key.open('sealed:', place))
  const [, , payload] = key.seal('other', place).split(':')
  refuses(() => key.open(`sealed:${key.id}:${payload}:${markOf(sealed)}`, place))
})

test('in the row of another user, or as another kind of secret, it opens nothing', () => {
  const sealed = key.seal('the-key', place)
  refuses(() => key.open(sealed, receiverKeyOf('other@example.com')))
  const secret = key.seal('the-key', signingSecretsOf(1))
  refuses(() => key.open(secret, signingSecretsOf(2)))
  refuses(() => key.open(secret, { kind: 'receiver key', owner: '1' }))
})
