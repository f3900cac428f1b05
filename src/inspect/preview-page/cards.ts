/** The listings of a dry run as cards. Of a contact they say no more than whether it is there. */
import { formatCount, plural } from '../../base/amounts.ts'
import { buildCards, type Card } from '../page/cards.ts'
import { buildSection } from '../page/document.ts'
import { escapeHtml, type Html } from '../page/html.ts'
import type { DryRun } from './find-dry-run.ts'
import { clip, nameQuery, type Times } from './wording.ts'

type DryLead = DryRun['shown'][number]

const titleCharsMax = 250
const textCharsMax = 320
/** The most HTML of all cards together: the page stays small, however long the texts are. */
const cardsBytesMax = 1_300_000

function nameLead({ address, secondAddress, city, state, postalCode, fullAddress }: DryLead): string {
  if (address === null && fullAddress !== null) return fullAddress
  // many sources write the unit in both lines
  const isTwice = secondAddress !== null && address?.toLowerCase().endsWith(secondAddress.toLowerCase())
  const street = [address, !isTwice && secondAddress].filter(Boolean).join(' ')
  return [street, city, [state, postalCode].filter(Boolean).join(' ')].filter(Boolean).join(', ')
}

const describeContact = ({ hasName, hasPhone, hasEmail }: DryLead) => {
  const has = [hasName && 'name', hasPhone && 'phone', hasEmail && 'e-mail'].filter(Boolean)
  return has.length === 0 ? 'no contact' : `contact: ${has.join(', ')}`
}

const describeMiles = (miles: number) =>
  miles < 1 ? 'less than a mile away' : `${miles < 10 ? miles.toFixed(1) : Math.round(miles)} miles away`

function buildCard(lead: DryLead, query: string, { day }: Times): Card {
  const { price, bedrooms, bathrooms, sqft, yearBuilt, propertyType, miles, importedAt, changedAt } = lead
  const [first, last] = [day(importedAt), day(changedAt)]
  return {
    figure: price > 0 ? `$${formatCount(price)}` : 'No price',
    title: clip(nameLead(lead), titleCharsMax),
    href: lead.href,
    facts: [
      bedrooms > 0 && plural(bedrooms, 'bed'),
      bathrooms > 0 && plural(bathrooms, 'bath'),
      sqft > 0 && `${formatCount(sqft)} sq ft`,
      yearBuilt > 0 && `built ${yearBuilt}`,
      propertyType && clip(propertyType.replaceAll('_', ' ').toLowerCase(), 60),
    ].filter((fact) => typeof fact === 'string'),
    text: lead.description && clip(lead.description.trim(), textCharsMax),
    notes: [
      `query ${lead.query}: ${clip(query, 60)}`,
      miles !== null && describeMiles(miles),
      first && `first seen ${first}`,
      last && last !== first && `changed ${last}`,
      describeContact(lead),
    ].filter((note) => typeof note === 'string'),
  }
}

/** About how many bytes of HTML the card has. */
const sizeOf = (card: Card) => 300 + Buffer.byteLength(escapeHtml(Object.values(card).flat().join(' ')))

/** The section of the newest listings; it ends early where the cards become too large together. */
export function buildListings({ shown, queries, leads }: DryRun, times: Times): Html {
  const names = new Map(queries.map((query) => [query.number, nameQuery(query)]))
  const cards: Card[] = []
  let size = 0
  for (const lead of shown) {
    const card = buildCard(lead, names.get(lead.query) ?? '', times)
    size += sizeOf(card)
    if (size > cardsBytesMax) break
    cards.push(card)
  }
  const more = leads - cards.length
  return buildSection({
    id: 'listings',
    title: 'The listings',
    intro: `The newest first.${more > 0 ? ` These are ${formatCount(cards.length)} of ${formatCount(leads)}.` : ''} A link leads to the page that the listing was found on.`,
    body: buildCards({
      name: 'the listings',
      cards,
      ...(more > 0 && { more: `${plural(more, 'listing')} more: \`preview --user … --body\` prints all of them.` }),
    }),
  })
}
