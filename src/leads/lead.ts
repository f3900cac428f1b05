/**
 * What a lead is: the list of the fields that are delivered, the list of those that a listing has, the schema of a value of each, the JSON
 * that goes on the wire, and how a later record changes an earlier one.
 */
import * as z from 'zod'
import { hrefBytesMax, leadNumberMax } from '../base/limits.ts'
import { isPlainToSee, notPlainToSee } from '../base/printable.ts'
import type { FsboLead } from '../index.ts'

interface FieldDefinition {
  name: string
  kind: 'string' | 'number'
  /** What is sent where the value is unknown; undefined: nothing. */
  default?: string | number | null
  required?: true
  /** For the OpenAPI document. A null or an absent field never means that an earlier value is gone. */
  about?: string
}

/** What is delivered, in the order of the wire: bodies, their schemas and triggers. Append, never reorder. */
export const deliveredFields = [
  {
    name: 'href',
    kind: 'string',
    about: 'full URL of the original listing page; it identifies the listing, and stays the same in later deliveries',
    required: true,
  },
  {
    name: 'postalCode',
    kind: 'string',
    about: 'ZIP or postal code of the property, as it was imported',
    required: true,
  },
  { name: 'schemaVersion', kind: 'string', about: 'version of this data model', default: 'v0.1.0' },
  { name: 'price', kind: 'number', about: 'asking price in USD; 0: unknown', default: 0 },
  { name: 'rawListingDate', kind: 'string', about: 'listing date, as the source writes it', default: null },
  { name: 'sqft', kind: 'number', about: 'total square footage; 0: unknown', default: 0 },
  { name: 'bedrooms', kind: 'number', about: 'number of bedrooms; 0: unknown', default: 0 },
  { name: 'bathrooms', kind: 'number', about: 'number of bathrooms; 0: unknown', default: 0 },
  { name: 'yearBuilt', kind: 'number', about: '0: unknown', default: 0 },
  { name: 'description', kind: 'string', about: "the seller's description", default: null },
  { name: 'propertyType', kind: 'string', about: 'single family, condo, townhouse …', default: null },
  { name: 'contactName', kind: 'string', about: 'who to contact, mostly the owner', default: null },
  { name: 'contactPhone', kind: 'string', default: null },
  { name: 'contactEmail', kind: 'string', default: null },
  { name: 'fullAddress', kind: 'string', about: 'the whole address in one text; left out where it is unknown' },
  { name: 'address', kind: 'string', about: 'street address', default: null },
  { name: 'secondAddress', kind: 'string', about: 'unit number and such', default: null },
  { name: 'city', kind: 'string', default: null },
  { name: 'state', kind: 'string', about: 'abbreviation or full name', default: null },
  { name: 'country', kind: 'string', default: null },
] as const satisfies readonly (FieldDefinition & { name: keyof FsboLead })[]

/** What a listing has beside: it is imported, stored, searched by `--where` and shown, and never sent. Append, never reorder. */
const keptFields = [] as const satisfies readonly FieldDefinition[]

/** What a listing has. */
export const leadFields = [...deliveredFields, ...keptFields] as const

export type DeliveredLead = FsboLead
export type DeliveredField = keyof DeliveredLead

type Definition = (typeof leadFields)[number]
type KeptDefinition = (typeof keptFields)[number] & FieldDefinition
type ValueOf<D extends FieldDefinition> = D['kind'] extends 'number' ? number : string

/** Null where a kept field is unknown. */
export type KeptLead = { [D in KeptDefinition as D['name']]: ValueOf<D> | null }
export type Lead = DeliveredLead & KeptLead
export type LeadField = keyof Lead
export type NumberField = Extract<Definition, { kind: 'number' }>['name']

/** The fields that a record of an import knows; unknown ones are absent. */
export type LeadPatch = { [F in LeadField]?: Exclude<Lead[F], null> }

const fields: readonly (FieldDefinition & { name: LeadField })[] = leadFields
const delivered: readonly (FieldDefinition & { name: DeliveredField })[] = deliveredFields
const kept: readonly FieldDefinition[] = keptFields
const names: ReadonlySet<string> = new Set(fields.map(({ name }) => name))

/** The bits of `givenFields`, which are stored: those of kept fields count from the highest, so that either list may grow. */
const bits: readonly { name: LeadField; bit: number }[] = [
  ...delivered.map(({ name }, at) => ({ name, bit: 1 << at })),
  ...kept.map(({ name }, at) => ({ name: name as LeadField, bit: 1 << (30 - at) })),
]

/** The bits of some fields. */
const bitsOf = (some: readonly LeadField[]) =>
  bits.reduce((all, { name, bit }) => (some.includes(name) ? all | bit : all), 0)

export function isLeadField(name: string): name is LeadField {
  return names.has(name)
}

/** NUL fits in no PostgreSQL text, a lone surrogate in no UTF-8. */
export function isStorable(text: string): boolean {
  return text.isWellFormed() && !text.includes('\0')
}

/** A text that PostgreSQL can store and UTF-8 can write. */
export const textSchema = z
  .string({ error: 'must be text' })
  .refine(isStorable, { error: 'holds a NUL character or half of a surrogate pair' })

const numberSchema = z
  .number({ error: 'must be a number' })
  .min(0, { error: 'must be from 0 to 1000000000000' })
  .max(leadNumberMax, { error: 'must be from 0 to 1000000000000' })

/** Spaces and control characters are what URL parsers forgive and receivers may not. */
function isAbsoluteHttpUrl(text: string): boolean {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is refused
  return /^https?:\/\/[^\s\u0000-\u0020\u007f]+$/i.test(text) && URL.canParse(text)
}

const urlOf = (schema: z.ZodString) =>
  schema
    .refine(isAbsoluteHttpUrl, { error: 'must be an absolute http: or https: URL' })
    .refine((text) => Buffer.byteLength(text) <= hrefBytesMax, { error: `must have at most ${hrefBytesMax} bytes` })

/** The `href` of a lead: an absolute http: or https: URL of at most 2,048 bytes. */
export const hrefSchema = urlOf(textSchema).meta({
  pattern: '^[Hh][Tt][Tt][Pp][Ss]?://',
  maxLength: hrefBytesMax,
})

function schemaOfField({ name, kind }: FieldDefinition): z.ZodType {
  if (name === 'href') return hrefSchema
  return kind === 'number' ? numberSchema : textSchema
}

/** Stricter than `hrefSchema`: a listing imported earlier may break it, and is still delivered, explained and erased. */
export const importedHrefSchema = urlOf(
  textSchema
    .refine(isPlainToSee, notPlainToSee)
    // of a cell whose quotes are wrong, the last one or a separator is left
    .refine((text) => !/[",;|]\s*$/.test(text), { error: 'ends with a quote or a separator' }),
)

function deliveredSchemaOf(field: FieldDefinition): z.ZodType {
  const schema = schemaOfField(field)
  if (field.name === 'fullAddress') return schema.optional()
  if (field.required && field.name !== 'href') return textSchema.min(1, { error: 'must not be empty' })
  return field.default === null ? schema.nullable() : schema
}

const describe = (schema: z.ZodType, { about }: FieldDefinition) =>
  about ? schema.meta({ description: about }) : schema

export const deliveredLeadShape: Readonly<Record<string, z.ZodType>> = Object.fromEntries(
  delivered.map((field) => [field.name, describe(deliveredSchemaOf(field), field)]),
)

/** A lead as it must stand in a delivery (contract 4.2): every field, no other. */
export const deliveredLeadSchema = z.strictObject(deliveredLeadShape, {
  error: 'must be an object with the fields of a lead',
}) as unknown as z.ZodType<DeliveredLead>

/** A lead as it is delivered: what `patch` lacks has its default. `patch` has `href` and, unless the listing is known, `postalCode`. */
export function completeLead(patch: LeadPatch | Lead): DeliveredLead {
  const lead: Record<string, unknown> = {}
  for (const field of delivered) {
    const value = patch[field.name] ?? field.default
    if (value !== undefined) lead[field.name] = value
  }
  return lead as unknown as DeliveredLead
}

/** The JSON of a lead on the wire: the delivered fields in their order, each with its default where it is unknown. */
export const serialiseLead = (patch: LeadPatch | Lead): string => JSON.stringify(completeLead(patch))

/** The JSON of the kept fields that are known; undefined where there are none. */
export function serialiseKept(lead: object): string | undefined {
  const known: Record<string, unknown> = {}
  for (const { name } of kept) {
    const value = (lead as Record<string, unknown>)[name]
    if (value !== undefined && value !== null) known[name] = value
  }
  return kept.length === 0 || Object.keys(known).length === 0 ? undefined : JSON.stringify(known)
}

/** A listing as it is stored. */
export interface StoredJson {
  /** As it is delivered. */
  json: string
  /** As `serialiseKept` gives it. */
  kept: string | null
}

export function readLead({ json, kept: own }: StoredJson): Lead {
  const lead = JSON.parse(json)
  for (const { name } of kept) lead[name] = null
  return own === null ? lead : Object.assign(lead, JSON.parse(own))
}

/** Which fields `patch` knows, a bit each. */
export function givenFields(patch: LeadPatch): number {
  let given = 0
  for (const { name, bit } of bits) if (patch[name] !== undefined) given |= bit
  return given
}

/** The required fields, as bits of `givenFields`. Every record has them, so they do not count as filled. */
export const requiredFields = bitsOf(['href', 'postalCode'])

/** The bit of `price` in `givenFields`. */
export const priceField = bitsOf(['price'])

/** Contacts: an erasure may take them from a listing that stays. */
export const contactFields = ['contactName', 'contactPhone', 'contactEmail'] as const satisfies readonly LeadField[]

/** The bits of the contacts: a record whose contacts were taken says that they are gone. */
export const contactBits = bitsOf(contactFields)

/**
 * The null rule (contract 4.10): the current lead with the fields that are `given` (bits) taken from the later record, which
 * is complete as if it were new. What the later record does not know stays.
 */
export function mergeLead(current: Lead, later: Lead, given: number): Lead {
  const merged: Record<string, unknown> = {}
  for (const { name, bit } of bits) {
    const value = (given & bit ? later : current)[name]
    if (value !== undefined) merged[name] = value
  }
  return merged as unknown as Lead
}
