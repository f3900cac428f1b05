import assert from 'node:assert/strict'
import { test } from 'node:test'
import { LeadpushError } from '../../src/base/errors.ts'
import { IgnoredFields } from '../../src/records/ignored-fields.ts'
import { LineParser } from '../../src/users/csv-line.ts'
import { parseYesOrNo } from '../../src/users/read-text.ts'

const header = (text: string) => ({ names: text.split(','), raw: Buffer.from(text) })
const all = 'email,receiverApiKey,subscribed,type,value,radius'

function parse(cells: string[], names = all) {
  const parser = new LineParser(new IgnoredFields())
  parser.setHeader(header(names))
  return parser.parse(cells)
}
const queryOf = (...cells: string[]) => {
  const parsed = parse(['a@x.example', '', '', ...cells])
  return 'user' in parsed ? parsed.user.queries?.[0] : `${parsed.path} ${parsed.message}`
}

for (const [text, meaning] of [
  ...['true', 'TRUE', 't', 'yes', 'Y', '1', 'On'].map((text) => [text, true] as const),
  ...['false', 'F', 'no', 'N', '0', 'OFF'].map((text) => [text, false] as const),
  ...['', '2', 'maybe', 'subscribed', 'null'].map((text) => [text, undefined] as const),
]) {
  test(`subscribed ${JSON.stringify(text)} is ${meaning ?? 'neither yes nor no'}`, () =>
    assert.equal(parseYesOrNo(text), meaning))
}

test('a value that is neither yes nor no rejects its line, and is shown', () => {
  const parsed = parse(['A@x.example', 'key', 'maybe', '', '', ''])
  assert.deepEqual(parsed, { path: 'subscribed', message: 'must be true or false: "maybe"', email: 'a@x.example' })
})

test('empty cells say nothing, and blanks around a value do not count', () => {
  assert.deepEqual(parse([' A@x.example ', '', ' ', '', '', '']), {
    user: { email: 'a@x.example', receiverApiKey: undefined, subscribed: undefined },
    email: 'a@x.example',
  })
})

for (const [cells, expected] of [
  [['zipcode', '78704', '25'], { type: 'zipcode', value: '78704', radius: 25 }],
  [['ZipCode', '84321.0', '2.5 mi'], { type: 'zipcode', value: '84321', radius: 2.5 }],
  [['text', '84321.0', '25 Miles'], { type: 'text', value: '84321.0', radius: 25 }],
  [['text', ' pool ', ''], { type: 'text', value: 'pool', radius: 0 }],
  [['text', 'x', '.5'], { type: 'text', value: 'x', radius: 0.5 }],
  [['text', 'x', '100'], { type: 'text', value: 'x', radius: 100 }],
  [['text', 'x', '100.1'], 'radius must be a number from 0 to 100: "100.1"'],
  [['text', 'x', '-1'], 'radius must be a number from 0 to 100: "-1"'],
  [['text', 'x', '5 km'], 'radius must be a number from 0 to 100: "5 km"'],
  [['zip', '78704', ''], 'type must be zipcode or text: "zip"'],
  [['', '78704', ''], { type: 'zipcode', value: '78704', radius: 0 }],
  [['', '84321.0', '5'], { type: 'zipcode', value: '84321', radius: 5 }],
  [['', 'K1A 0B1', ''], { type: 'zipcode', value: 'K1A 0B1', radius: 0 }],
  [['', '78704 pool', '5'], { type: 'text', value: '78704 pool', radius: 5 }],
  [['', '1.0', ''], { type: 'text', value: '1.0', radius: 0 }],
  [['zipcode', '', ''], 'value is missing'],
  [['', '', '5'], 'value is missing'],
  [['', '', ''], undefined],
] as const) {
  test(`a query of the cells ${JSON.stringify(cells)} is read as a person would`, () =>
    assert.deepEqual(queryOf(...cells), expected))
}

test('columns stand in any order and case; unknown ones are counted', () => {
  const ignored = new IgnoredFields()
  const parser = new LineParser(ignored)
  parser.setHeader(header(' Value,EMAIL ,TYPE,Name'))
  const parsed = parser.parse(['pool', 'a@x.example', 'text', 'Ann'])
  assert.deepEqual('user' in parsed && parsed.user.queries, [{ type: 'text', value: 'pool', radius: 0 }])
  assert.deepEqual(ignored.toObject(), { Name: 1 })
})

test('another header below the first is refused, since the keys below it may be in other columns', () => {
  const parser = new LineParser(new IgnoredFields())
  parser.setHeader(header('email,receiverApiKey,value'))
  assert.throws(() => parser.parse(['email', 'value', 'receiverApiKey'], 3), /its line 3 is another header/)
  assert.equal('path' in parser.parse(['Email', 'receiverapikey', 'value'], 3), true)
})

for (const [names, expected] of [
  ['name,mail', /no column email: it has name, mail; users have the columns email, receiverApiKey/],
  ['email,value,Email', /has the column Email twice/],
  ['email,note,note', /has the column note twice: it is column 2 and column 3/],
] as const) {
  test(`a header of ${names} is refused as a whole`, () => {
    const parser = new LineParser(new IgnoredFields())
    assert.throws(
      () => parser.setHeader(header(names)),
      (error) => error instanceof LeadpushError && error.code === 'failed' && expected.test(error.message),
    )
  })
}

for (const [what, line] of [
  [' of a user', 'carl@x.example,SECRETKEY-carl,,text,pool,'],
  [' without an e-mail', ',SECRETKEY-carl,,text,pool,10'],
  [' with blanks', ' carl@x.example , SECRETKEY-carl ,yes,zipcode,78704,10'],
  [' with a separator that was not found', 'carl@x.example;SECRETKEY-carl;;text;pool;'],
] as const) {
  test(`a first line${what} is no header, and nothing of it is shown`, () => {
    // the message listed the names of the columns: keys and e-mails
    const parser = new LineParser(new IgnoredFields())
    assert.throws(
      () => parser.setHeader(header(line)),
      (error) => {
        assert.ok(error instanceof LeadpushError && error.code === 'failed')
        const told = `${error.message} ${error.hint}`
        assert.doesNotMatch(told, /carl|SECRET|pool|78704/)
        assert.match(told, /email, ?receiverApiKey/)
        return true
      },
    )
  })
}

for (const [cell, shown] of [
  ['SECRETKEY-zed', ''],
  ['zed@x.example;SECRETKEY-zed', ''],
  ['zed@x.example SECRETKEY-zed', ''],
  ['zed@-x.example', ': "zed@-x.example"'],
] as const) {
  test(`the e-mail ${cell} is ${shown ? 'shown' : 'not shown: it may have a receiver key'}`, () => {
    // swapped columns showed the key as an e-mail that is none
    const parsed = parse([cell, 'zed@x.example', '', '', '', ''])
    assert.deepEqual(parsed, { path: 'email', message: `must be an e-mail address${shown}`, email: undefined })
  })
}

for (const key of ['yes', 'text', '10', 'zed@x.example']) {
  test(`nothing of a line is shown whose receiver key is ${key}: its columns are swapped`, () => {
    // the key was shown as what is neither yes nor no
    const parsed = parse(['a@x.example', key, 'SECRETKEY-zed', '', '', ''])
    assert.ok('message' in parsed && parsed.message === 'must be true or false')
  })
}

test('no message holds a receiver key', () => {
  const parsed = parse(['a@x.example', 'secret key', '', '', '', ''])
  assert.ok('message' in parsed && parsed.path === 'receiverApiKey' && !parsed.message.includes('secret'))
})
