/** Tables on a terminal. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { stripVTControlCharacters } from 'node:util'
import { layOutTable } from '../../src/cli/table.ts'

const columns = [{ head: 'e-mail', wide: true }, { head: 'leads', isNumber: true }, { head: 'why' }] as const
const layOut = async (rows: string[][], room = Number.POSITIVE_INFINITY) =>
  stripVTControlCharacters(await layOutTable({ columns, rows }, { room })).split('\n')

test('columns are as wide as their longest text, and no line ends with blanks', async () => {
  assert.deepEqual(
    await layOut([
      ['ann@example.com', '7', ''],
      ['bob@example.com', '300', 'held'],
    ]),
    ['e-mail            leads   why', 'ann@example.com       7', 'bob@example.com     300   held', ''],
  )
})

test('on a narrow terminal long texts of wide columns are cut', async () => {
  const rows = [['a-long-address@example.com', '7', 'held']]
  // each of the three columns has three blanks behind it
  assert.equal((await layOut(rows, 44))[1], 'a-long-address@example.com       7   held')
  assert.equal((await layOut(rows, 43))[1], 'a-long-address@example.c…       7   held')
  // eight characters are kept, or nobody could tell whom the line is about
  assert.equal((await layOut(rows, 5))[1], 'a-long-…       7   held')
})

test('a wide character counts as two, and is not cut in two', async () => {
  assert.deepEqual(
    (
      await layOut([
        ['東京', '7', 'held'],
        ['Osaka', '7', 'held'],
      ])
    ).slice(1),
    ['東京         7   held', 'Osaka        7   held', ''],
  )
  assert.equal((await layOut([['東京東京東京', '7', 'held']], 1))[1], '東京東…        7   held')
})

test('characters that would move the cursor or colour the terminal are shown, not obeyed', async () => {
  assert.match(await layOutTable({ columns, rows: [['\u001b[2J', '7', '']] }, { room: 80 }), /^\\u001b\[2J/m)
})
