import assert from 'node:assert/strict'
import { test } from 'node:test'
import { copyInto } from '../../src/db/copy.ts'
import { withTransaction } from '../../src/db/transaction.ts'
import { Lexemes } from '../../src/matching/lexemes.ts'
import { searchWords } from '../../src/matching/words.ts'
import { createDatabase } from '../support/database.ts'
import { findStored, importRecords, listing } from '../support/import-files.ts'

const texts = [
  'Sunny houses, a house with pools and the POOL; owner’s acre, garages, running and runs',
  '',
  'the and of it is',
  '3 bedroom 2.5 bath 1e5 12 007 5G 3x4 0x1F 1st 2nd 90210-1234 $350,000 50% -7 +1.5e-3',
  'http://www.example.com/pool?x=1 owner@example.com /usr/lib C++ <b>bold</b> &amp; a_b snake_case',
  'Mayagüez CAÑÓN ½ acre İstanbul Straße ﬁne café naïve',
  'дом у озера 東京の家 한국어 집 منزل بيت 🏠 १२३ ٣٤',
  `${'x'.repeat(500)} ${'é'.repeat(500)} ${'東'.repeat(500)}`,
  'a1 1a a1b2 12ab34 1e 1e5e e5 inf nan null true "quoted" \'single\' back\\slash',
]

test('the lexemes of words, found one by one, are those that to_tsvector finds in the text', async (t) => {
  const opened = await (await createDatabase(t)).open()
  const found = await withTransaction(opened, async (connection) => {
    await connection.query('create temp table found (n integer, search tsvector) on commit drop')
    const lexemes = new Lexemes(connection)
    const listings = texts.map((text) => lexemes.wordsOf(searchWords(text)))
    await lexemes.learn()
    await copyInto(connection, 'found (n, search)', async (rows, flush) => {
      for (const [n, words] of listings.entries()) {
        rows.begin(2)
        rows.integer(n)
        rows.tsvector(lexemes.lexemesOf(words))
        await flush()
      }
    })
    const { rows } = await connection.query<{ search: string }>('select search::text from found order by n')
    return rows.map(({ search }) => search)
  })
  const { rows } = await opened.pool.query<{ search: string }>(
    `select strip(to_tsvector('english'::regconfig, words))::text as search
     from unnest($1::text[]) with ordinality t (words, n) order by n`,
    [texts.map(searchWords)],
  )
  assert.deepEqual(
    found,
    rows.map(({ search }) => search),
  )
})

test('listings of a first import are found by the same words as those that come later', async (t) => {
  const opened = await (await createDatabase(t)).open()
  const named = (prefix: string) =>
    texts.map((description, at) => listing(`${prefix}-${at}`, { description, city: 'Austin' }))
  for (const prefix of ['first', 'later']) {
    const { summary } = await importRecords(opened, named(prefix))
    assert.equal(summary.inserted, texts.length)
  }
  for (const at of texts.keys()) {
    const [first, later] = [await findStored(opened, `first-${at}`), await findStored(opened, `later-${at}`)]
    assert.match(first?.search ?? '', /'austin'/)
    assert.equal(first?.search, later?.search)
  }
})
