/**
 * What one operator has, day by day: houses on two feeds that come, change, go and come back, and users who come and go. The same
 * seed makes the same year.
 */
import { Random } from '../chaos/random.ts'

export type Source = 'mls' | 'fsbo'

export interface House {
  name: string
  sources: readonly Source[]
  postalCode: string
  price: number
  isOnMarket: boolean
}

export interface User {
  name: string
  receiverKey: string
  codes: readonly string[]
  /** Whether the export of users has this one. */
  isListed: boolean
}

const codes = ['10001', '02138', '60601', '73301', '78704', '84321', '94103', '98101', '33101', '30301']
const chanceOfChange = 0.05
const chanceToGo = 0.01
const chanceToComeBack = 0.02

export const hrefOf = ({ name }: Pick<House, 'name'>) => `https://listings.example/${name}`
export const contactOf = ({ name }: Pick<House, 'name'>) => `owner-${name}@example.org`
export const emailOf = ({ name }: Pick<User, 'name'>) => `${name}@example.com`

export class Operator {
  readonly houses: House[] = []
  readonly users: User[] = []
  private readonly random: Random

  constructor(seed: string, { houses, users }: { houses: number; users: number }) {
    this.random = new Random(seed)
    for (let n = 0; n < houses; n++) this.houses.push(this.makeHouse(`house-${n}`))
    for (let n = 0; n < users; n++) this.users.push(this.makeUser(`user-${n}`))
  }

  /** A day passes on the market. */
  passDay(): void {
    const { random } = this
    for (const house of this.houses) {
      if (house.isOnMarket && random.chance(chanceToGo)) house.isOnMarket = false
      else if (!house.isOnMarket && random.chance(chanceToComeBack)) house.isOnMarket = true
      if (random.chance(chanceOfChange)) house.price += 1_000
    }
    if (random.chance(0.5)) this.houses.push(this.makeHouse(`house-${this.houses.length}`))
  }

  /** A week passes among the users: some leave the export, some come back to it, one is new. */
  passWeek(): void {
    for (const user of this.users) if (this.random.chance(user.isListed ? 0.03 : 0.1)) user.isListed = !user.isListed
    this.users.push(this.makeUser(`user-${this.users.length}`))
  }

  pick<T>(list: readonly T[]): T {
    return this.random.one(list)
  }

  /** The CSV of the listing service, with its own names of columns and prices as people write them; `share`: a part of its rows. */
  writeMls(share = 1): string {
    const rows = this.onMarket('mls').map(
      (house) =>
        `${hrefOf(house)},${house.postalCode},"$${house.price.toLocaleString('en-US')}",${contactOf(house)},n/a`,
    )
    return ['Listing URL,Zip,List Price,Owner Email,Beds', ...rows.slice(0, rows.length * share), ''].join('\n')
  }

  writeFsbo(share = 1): string {
    const lines = this.onMarket('fsbo').map((house) =>
      JSON.stringify({
        href: hrefOf(house),
        postalCode: house.postalCode,
        price: house.price,
        contactEmail: contactOf(house),
      }),
    )
    return lines
      .slice(0, lines.length * share)
      .join('\n')
      .concat('\n')
  }

  writeUsers(): string {
    const lines = this.users
      .filter(({ isListed }) => isListed)
      .flatMap((user) => user.codes.map((code) => `${emailOf(user)},${user.receiverKey},yes,zipcode,${code},0`))
    return ['email,receiverApiKey,subscribed,type,value,radius', ...lines, ''].join('\n')
  }

  onMarket(source?: Source): House[] {
    return this.houses.filter(
      ({ isOnMarket, sources }) => isOnMarket && (source === undefined || sources.includes(source)),
    )
  }

  private makeHouse(name: string): House {
    const { random } = this
    const sources = random.one<readonly Source[]>([['mls'], ['mls'], ['fsbo'], ['mls', 'fsbo']])
    return {
      name,
      sources,
      postalCode: random.one(codes),
      price: 100_000 + random.from(0, 900) * 1_000,
      isOnMarket: true,
    }
  }

  private makeUser(name: string): User {
    const { random } = this
    const own = codes.filter(() => random.chance(0.25))
    return { name, receiverKey: `key-${name}`, codes: own.length > 0 ? own : [random.one(codes)], isListed: true }
  }
}
