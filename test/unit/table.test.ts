/** Tables for people: columns line up, and long texts are cut where the terminal is narrow. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { writeTable } from '../../src/cli/output.ts'
import { paint } from '../../src/cli/painted.ts'

const columns = [
  { head: 'user', wide: true },
  { head: 'leads', align: 'right' as const },
  { head: 'query', wide: true },
]

/** The lines of a table on a terminal with so many columns; undefined: none is known. */
async function linesOf(t: TestContext, rows: readonly string[][], room?: number): Promise<string[]> {
  let text = ''
  const write = process.stdout.write.bind(process.stdout)
  // bytes are what the tests' own runner says
  const writing = t.mock.method(process.stdout, 'write', (more: string | Uint8Array) => {
    if (typeof more !== 'string') return write(more)
    text += more
    return true
  })
  const before = Object.getOwnPropertyDescriptor(process.stdout, 'columns')
  Object.defineProperty(process.stdout, 'columns', { value: room, configurable: true, writable: true })
  try {
    await writeTable(columns, rows)
  } finally {
    writing.mock.restore()
    if (before) Object.defineProperty(process.stdout, 'columns', before)
    else Reflect.deleteProperty(process.stdout, 'columns')
  }
  return text.split('\n')
}

test('columns are as wide as their widest cell, and no line ends in blanks', async (t) => {
  assert.deepEqual(await linesOf(t, [['a@example.com', '7', '78704'], ['b', '1,000', '']]), [
    'user            leads   query',
    'a@example.com       7   78704',
    'b               1,000',
    '',
  ])
}) // biome-ignore format: a table

// they were counted as one character each, and so were cut where there was room
test('a wide character takes two columns', async (t) => {
  assert.deepEqual(await linesOf(t, [['東京', '1', 'x'], ['abcdef', '2', '大阪 10']]), [
    'user     leads   query',
    '東京         1   x',
    'abcdef       2   大阪 10',
    '',
  ])
}) // biome-ignore format: a table

test('on a narrow terminal the widest column shrinks, to eight characters at the least', async (t) => {
  const rows = [['somebody@example.com', '1', '東京東京東京東京東京']]
  assert.deepEqual((await linesOf(t, rows, 40))[1], 'somebody@exa…       1   東京東京東京…')
  assert.deepEqual((await linesOf(t, rows, 10))[1], 'somebod…       1   東京東…')
})

test('a colour ends where its text is cut', async (t) => {
  const isTTY = Object.getOwnPropertyDescriptor(process.stdout, 'isTTY')
  Object.defineProperty(process.stdout, 'isTTY', { value: true, configurable: true })
  const { NO_COLOR, CI } = process.env
  delete process.env.NO_COLOR
  delete process.env.CI
  t.after(() => {
    if (isTTY) Object.defineProperty(process.stdout, 'isTTY', isTTY)
    else Reflect.deleteProperty(process.stdout, 'isTTY')
    Object.assign(process.env, NO_COLOR !== undefined && { NO_COLOR }, CI !== undefined && { CI })
  })
  const [, row] = await linesOf(t, [[paint('red', 'somebody@example.com'), '1', '']], 10)
  assert.equal(row, '\u001b[31msomebod\u001b[39m…       1')
})
