/** Whatever the trouble, and whichever comes after it, what the program advises is enough to serve everybody once. */
import { test } from 'node:test'
import { followAdvice, type Trouble, troubles } from '../support/advice.ts'

for (const [name, trouble] of Object.entries(troubles))
  test(`${name}: what is advised serves everybody once`, () => followAdvice(trouble))

const pairs = ['the receiver is down', 'everybody gets HTTP 401', 'a login page answers', 'some failed, and one is unknown'] // biome-ignore format: a list

for (const one of pairs)
  for (const other of pairs) {
    const answers = [one, other].flatMap((name) => (troubles[name] as Trouble).answers ?? [])
    test(`${one}, then ${other}: what is advised serves everybody once`, () => followAdvice({ answers, users: 30 }))
  }
