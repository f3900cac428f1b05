/**
 * The deliveries of a probe: their listings are plainly made up, with hrefs of this probe alone, so that a receiver can recognise and
 * delete them. Pure.
 */
import { randomUUID } from 'node:crypto'
import { hrefBytesMax } from '../../base/limits.ts'
import { completeLead, type DeliveredLead, type LeadPatch } from '../../leads/lead.ts'
import type { Query } from '../../users/query.ts'

const madeUpHref = 'https://example.com/leadpush-probe/'
/** The user's key of a probe without `--user`. */
export const madeUpKey = 'leadpush-probe-made-up-key'

const description = 'A made-up listing, sent by `leadpush probe`: there is no such home. Delete it at will.'

export const query: Query = { type: 'zipcode', value: '78704', radius: 5 }
export const otherQuery: Query = { type: 'text', value: 'Austin, TX', radius: 2.5 }

export interface MadeUp {
  /** Marks the hrefs and keys of one probe. */
  id: string
  /** A listing with every field; the same name makes the same listing. */
  lead(name: string | number, patch?: Partial<DeliveredLead>): DeliveredLead
  /** A listing with the required fields alone. */
  bareLead(name: string): DeliveredLead
  leads(name: string, count: number): DeliveredLead[]
  newKey(): string
}

export function makeUp(): MadeUp {
  const id = randomUUID()
  let keys = 0
  const hrefOf = (name: string | number) => `${madeUpHref}${id}/${name}`
  const lead = (name: string | number, patch: LeadPatch = {}) =>
    completeLead({
      href: hrefOf(name),
      postalCode: '78704',
      price: 350_000,
      rawListingDate: '3 days ago',
      sqft: 1_850,
      bedrooms: 3,
      bathrooms: 2.5,
      yearBuilt: 1999,
      description,
      propertyType: 'single family',
      contactName: 'Made-up Owner',
      contactPhone: '512-555-0100',
      contactEmail: 'made-up-owner@example.com',
      fullAddress: '1 Probe Street, Austin, TX 78704',
      address: '1 Probe Street',
      secondAddress: 'Unit 2',
      city: 'Austin',
      state: 'TX',
      country: 'US',
      ...patch,
    })
  return {
    id,
    lead: (name, patch = {}) => ({ ...lead(name), ...patch }),
    bareLead: (name) => completeLead({ href: hrefOf(name), postalCode: '78704' }),
    leads: (name, count) => Array.from({ length: count }, (_, at) => lead(`${name}-${at + 1}`)),
    newKey: () => `leadpush-probe-${id}-${++keys}`,
  }
}

export function buildMadeUpBody(queryList: readonly Query[], fsbos: readonly object[]): Buffer {
  return Buffer.from(JSON.stringify({ queryList, fsbos }))
}

/** A body of exactly `length` bytes: its leads' descriptions are made longer, all about alike. */
export function buildBodyOf(length: number, queries: readonly Query[], leads: readonly DeliveredLead[]): Buffer {
  const missing = length - buildMadeUpBody(queries, leads).length
  const each = Math.floor(missing / leads.length)
  const rest = missing - each * leads.length
  const longer = leads.map((lead, at) => ({
    ...lead,
    description: `${lead.description}${' '.padEnd(each + (at < rest ? 1 : 0), 'made up ')}`,
  }))
  return buildMadeUpBody(queries, longer)
}

/** The longest allowed href. */
export const buildLongHref = (href: string) => `${href}/${'a'.repeat(hrefBytesMax - href.length - 1)}`
