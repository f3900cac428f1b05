/** The listings and the users of a round, and what is imported beside the pushes. */
import { Random } from '../chaos/random.ts'
import { usersMax } from './plan-round.ts'

const towns = ['78704', '10001', '60601', '94103']
/** Nobody's weekly push has listings of it, but the hooks do. */
const hookTown = '73301'
/** Nobody has any of it. */
const forgottenTown = '59718'
/** Its listings are so long that they make two parts. */
const longTown = '99501'

export const hooked = 4
/** The first so many users get an integration, which subscribes by `serve`. */
export const subscribersMax = 60
export const forgettable = 200

const line = (record: object) => `${JSON.stringify(record)}\n`
const words = 'A house with a garden. '
export const forgettableHref = (at: number) => `https://listings.example/forget/${at}`
export const hookedEmail = (at: number) => `hooked-${at}@example.com`
export const userEmail = (at: number) => `user-${at}@example.com`

/** Listings of towns whose users get them; `change` makes others of them. */
export function* townListings(change: string): Generator<string> {
  const random = new Random('listings', change)
  for (let at = 0; at < 160; at++) {
    const isLong = at % 16 === 0
    yield line({
      href: `https://listings.example/${at}`,
      postalCode: isLong ? longTown : towns[at % towns.length],
      price: 100_000 + random.from(0, 900_000),
      description: `${change} ${words.repeat(isLong ? 26_000 : 10)}`,
    })
  }
}

export function* forgettableListings(): Generator<string> {
  for (let at = 0; at < forgettable; at++) yield line({ href: forgettableHref(at), postalCode: forgottenTown })
}

export const newHrefs = (nth: number) =>
  Array.from({ length: 5 }, (_, at) => `https://listings.example/new/${nth}/${at}`)

export function* newListings(nth: number): Generator<string> {
  for (const href of newHrefs(nth)) yield line({ href, postalCode: hookTown, price: 100_000 + nth })
}

export function* users(): Generator<string> {
  const query = (value: string) => ({ type: 'zipcode', value, radius: 0 })
  for (let at = 0; at < usersMax; at++) {
    const queries = [...(at % 150 === 107 ? [query(longTown)] : []), query(towns[at % towns.length] ?? '')]
    yield line({ email: userEmail(at), receiverApiKey: `key-${at}`, queries })
  }
  for (let at = 0; at < hooked; at++)
    yield line({
      email: hookedEmail(at),
      receiverApiKey: `hooked-${at}`,
      subscribed: false,
      queries: [query(hookTown)],
    })
}
