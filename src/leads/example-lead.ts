/** A made-up listing, for the sample endpoint if a user has no match, and for the OpenAPI document. */
import { completeLead, type DeliveredLead } from './lead.ts'

/** Every `n` gives another listing, with all fields filled; its `href` begins with `https://listings.example/`. */
export function buildExampleLead(n: number): DeliveredLead {
  return completeLead({
    href: `https://listings.example/example-${n}`,
    postalCode: '78704',
    price: 300_000 + 25_000 * n,
    rawListingDate: '2026-01-01',
    sqft: 1_200 + 150 * n,
    bedrooms: n + 1,
    bathrooms: n,
    yearBuilt: 1980 + n,
    description: 'An example: there is no such listing.',
    propertyType: 'single family',
    contactName: `Example Owner ${n}`,
    contactPhone: '512-555-0100',
    contactEmail: `owner-${n}@example.com`,
    fullAddress: `${n} Example Street, Unit ${n}, Austin, TX 78704`,
    address: `${n} Example Street`,
    secondAddress: `Unit ${n}`,
    city: 'Austin',
    state: 'TX',
    country: 'US',
  })
}
