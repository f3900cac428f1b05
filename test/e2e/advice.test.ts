/** What the program advises after a trouble is enough to serve everybody once. `test/slow/advice.test.ts` has more troubles. */
import { test } from 'node:test'
import { followAdvice, type Trouble, troubles } from '../support/advice.ts'

const some = ['the receiver is down', 'everybody gets HTTP 401', 'a login page answers', 'some failed, and one is unknown', 'the time zone is another'] // biome-ignore format: a list

for (const name of some)
  test(`${name}: what is advised serves everybody once`, () => followAdvice(troubles[name] as Trouble))
