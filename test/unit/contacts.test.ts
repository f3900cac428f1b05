/** What a contact of a listing is, and in which form two of them are the same (contract 3, `leads forget`). */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { findContacts, findContactsOf, parseContact } from '../../src/leads/contacts.ts'
import { normalText } from '../../src/leads/normal-text.ts'
import { email, emailSpellings, phone as number, others, phoneSpellings } from '../support/contact-spellings.ts'

const phone = '5125550143'
const other = '5125550199'

test('a phone number is its digits without a leading 1, however it is written, with or without an extension', () => {
  for (const text of [
    ...['+1 (512) 555-0143', '512.555.0143', '5125550143 ext 2', '1-512-555-0143', '(512)5550143x12', ' 512 555 0143 '],
    ...[
      '512/555-0143',
      '512\u2013555\u20130143',
      '512\u00a0555\u00a00143',
      'tel:+15125550143',
      '512-555-0143 Ext. 1234 ',
    ],
  ]) {
    assert.deepEqual(findContacts(text), [phone], text)
    assert.equal(parseContact(text), phone, text)
  }
  assert.deepEqual(
    [parseContact('+44 20 7946 0958'), findContacts('+44 20 7946 0958')[0]],
    Array(2).fill('442079460958'),
  )
})

test('an e-mail address is in lower case, and without what stands around it', () => {
  for (const text of ['Owner-1@Example.COM', ' mailto:owner-1@example.com ']) {
    assert.equal(parseContact(text), 'owner-1@example.com', text)
    assert.deepEqual(findContacts(text), ['owner-1@example.com'], text)
  }
  for (const text of [
    ...[
      'The Owner <owner-1@example.com>',
      "'owner-1@example.com'",
      'write to owner-1@example.com.',
      'a\nowner-1@example.com',
    ],
    ...['mailto:owner-1@example.com?subject=x', '(owner-1@example.com)'],
  ]) {
    assert.deepEqual(findContacts(text), ['owner-1@example.com'], text)
  }
})

test('several contacts in one field are all found', () => {
  for (const text of [
    ...[`${phone}, ${other}`, `${phone};${other}`, `${phone} / ${other}`, `${phone}/${other}`, `${phone}\n${other}`],
    ...[
      '512-555-0143 or 512-555-0199',
      '512 555 0143 512 555 0199',
      '+15125550143+15125550199',
      '1 512 555 0143 1 512 555 0199',
    ],
    ...['(512) 555-0143 (512) 555-0199', '512.555.0143. 512.555.0199'],
  ]) {
    const found = findContacts(text)
    assert.ok(found.includes(phone) && found.includes(other), `${text}: ${found}`)
  }
  assert.deepEqual(findContacts('A@example.com;b@example.com 555-0143 555-0199'), [
    ...['a@example.com', 'b@example.com', '55501435550199', '5550143', '5550199'],
  ])
})

test('a text with neither, or with more than one, is not taken as a contact', () => {
  const wrong = [
    '',
    'Owner',
    '123456',
    '1234567890123456',
    `${phone}, ${other}`,
    `${phone} ${other}`,
    'a@example.com, b@example.com',
  ]
  for (const text of [
    ...wrong,
    '@example.com',
    'a@',
    'a b@example.com',
    '512-555-0143 Owner',
    '555-01x',
    'a@@example.com',
  ]) {
    assert.equal(parseContact(text), undefined, text)
  }
  assert.deepEqual([parseContact('1234567'), parseContact('123456789012345')], ['234567', '23456789012345'])
  assert.deepEqual(findContacts('Unit 12, since 2019, 78704-1'), [])
})

/** Of all threads; other work of the machine does not count. */
function measureProcessorMs(work: () => void): number {
  const before = process.cpuUsage()
  work()
  const { user, system } = process.cpuUsage(before)
  return (user + system) / 1_000
}

test('a long text without a contact takes some milliseconds of the processor, not minutes', () => {
  for (const piece of ['a', '1', '1 ', '@', 'a@', "'", '.', '(', '222', '222 ', '2\n', '•', '_@']) {
    assert.ok(measureProcessorMs(() => findContacts(piece.repeat(1_000_000 / piece.length))) < 2_000, piece)
  }
})

test('a domain that goes on and on is read as fast as any other', () => {
  // each of its signs was tried as the beginning of those at its end: a long one held up an import for minutes
  const tookMs = measureProcessorMs(() => {
    const [found] = findContacts(`owner-1@${'.'.repeat(200_000)}com`)
    assert.equal(found?.length, 200_011)
  })
  assert.ok(tookMs < 2_000)
})

test('a phone number is found with any blank or sign between its groups, and with other digits beside it', () => {
  // bullets, tabs, line ends and thin blanks cut it into pieces; hours behind it made another number of it
  for (const sign of ['•', '·', '\t', '\n', '_', '~', '\\', '\u2009', '\u202f', '\u200b', ' • ']) {
    assert.deepEqual(findContacts(`512${sign}555${sign}0143`), [phone], JSON.stringify(sign))
  }
  for (const text of [
    ...['(512)\n555-0143', '(512) 555-0143 9am-5pm', '(512) 555-0143 (24/7)', '512 555 0143 2', '1 512 555 0143 2'],
    ...[
      '24/7 (512) 555-0143',
      '(512)5550143 2',
      '78704\t(512) 555-0143\t2',
      '78704 5125550143',
      '78704\n1-512-555-0143',
    ],
  ]) {
    assert.ok(findContacts(text).includes(phone), JSON.stringify(text))
  }
  const fields = { contactName: null, contactPhone: '512 (area), 555 then 0143', contactEmail: null }
  assert.deepEqual(findContactsOf(fields), [phone])
  // two columns are no number to be given
  assert.equal(parseContact('12345\t5125550143'), undefined)
  for (const text of ['+44 20 7946 0958', '2019-05-12 350000', '350000 1850 2000', '15125550143000']) {
    for (const found of findContacts(text)) assert.notEqual(found.length, 10, `${text}: ${found}`)
  }
})

test('an e-mail address is found with quotes, bullets or a query around it, and keeps the signs that it may have', () => {
  // these signs were taken for its first letters
  for (const text of [
    ...['“owner-1@example.com”', '«owner-1@example.com»', '*owner-1@example.com*', '`owner-1@example.com`'],
    ...['x?a=owner-1@example.com', 'x&owner-1@example.com', '•owner-1@example.com', '\u200bowner-1@example.com'],
    ...['‘owner-1@example.com’', '📧owner-1@example.com', '_owner-1@example.com_', '{owner-1@example.com}'],
  ]) {
    assert.ok(findContacts(text).includes('owner-1@example.com'), text)
  }
  assert.ok(findContacts('“smith&jones@example.com”, x').includes('jones@example.com'))
  for (const text of ['smith&jones@example.com', '*@example.com', 'a=b@example.com']) {
    assert.equal(parseContact(text), text)
    assert.equal(findContacts(text)[0], text)
  }
})

// Full-width letters, `[at]`, `00` or a zero-width blank made another contact: an erasure left the listing.
test('each spelling that a person reads as a contact is that contact, alone and within a text', () => {
  for (const [spellings, contact] of [
    [phoneSpellings, number],
    [emailSpellings, email],
  ] as const) {
    for (const spelling of spellings) {
      assert.equal(parseContact(spelling), contact, spelling)
      for (const text of [spelling, `Jane Doe, ${spelling}, agent`, `${spelling}\nafter 9 am`]) {
        assert.ok(findContacts(text).includes(contact), text)
      }
    }
  }
  for (const text of others) {
    const found = [...findContacts(text), parseContact(text)]
    assert.ok(!found.includes(number) && !found.includes(email), text)
  }
})

test('a digit of any script is that digit', () => {
  const scripts = new Map<number, string>()
  for (let code = 0x80; code < 0x20000; code++) {
    const digit = String.fromCodePoint(code)
    if (!/\p{Nd}/u.test(digit)) continue
    // each script has its ten in a row, from 0 to 9
    const first = [...scripts.keys()].find((start) => code < start + 10) ?? code
    scripts.set(first, (scripts.get(first) ?? '') + normalText(digit))
  }
  assert.ok(scripts.size > 60)
  assert.deepEqual([...new Set(scripts.values())], ['0123456789'])
})
