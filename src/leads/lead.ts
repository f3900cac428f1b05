/**
 * What a lead is: the one list of its fields with their kinds and defaults, the schema of a value of each, the JSON that
 * goes on the wire, and how a later record changes an earlier one. Imports, deliveries, triggers and the receiver read it.
 */
import * as z from 'zod'
import { hrefBytesMax, leadNumberMax } from '../base/limits.ts'
import { isPlainToSee, notPlainToSee } from '../base/printable.ts'
import type { FsboLead } from '../index.ts'

export type Lead = FsboLead

export type LeadField = keyof Lead

/** The fields that a record of an import knows; unknown ones are absent. */
export type LeadPatch = { [F in LeadField]?: Exclude<Lead[F], null> }

interface FieldDefinition {
  name: LeadField
  kind: 'string' | 'number'
  /** What is sent where the value is unknown; undefined: nothing. */
  default?: string | number | null
  required?: true
  /** For the OpenAPI document. A null or an absent field never means that an earlier value is gone. */
  about?: string
}

/** In the order of the wire. The index of a field is its bit in `given`: append, never reorder. */
export const leadFields = [
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
] as const satisfies readonly FieldDefinition[]

const fields: readonly FieldDefinition[] = leadFields
const names: ReadonlySet<string> = new Set(fields.map(({ name }) => name))

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

/** The `href` of a lead: an absolute http: or https: URL of at most 2,048 bytes. */
export const hrefSchema = textSchema
  .refine(isAbsoluteHttpUrl, { error: 'must be an absolute http: or https: URL' })
  .refine((text) => Buffer.byteLength(text) <= hrefBytesMax, { error: `must have at most ${hrefBytesMax} bytes` })
  .meta({ pattern: '^[Hh][Tt][Tt][Pp][Ss]?://', maxLength: hrefBytesMax })

function schemaOfField({ name, kind }: FieldDefinition): z.ZodType {
  if (name === 'href') return hrefSchema
  return kind === 'number' ? numberSchema : textSchema
}

/** Stricter than `hrefSchema`: a listing imported earlier may break it, and is still delivered, explained and erased. */
export const importedHrefSchema = textSchema.refine(isPlainToSee, notPlainToSee).pipe(hrefSchema)

function deliveredSchemaOf(field: FieldDefinition): z.ZodType {
  const schema = schemaOfField(field)
  if (field.name === 'fullAddress') return schema.optional()
  if (field.required && field.name !== 'href') return textSchema.min(1, { error: 'must not be empty' })
  return field.default === null ? schema.nullable() : schema
}

const describe = (schema: z.ZodType, { about }: FieldDefinition) =>
  about ? schema.meta({ description: about }) : schema

export const deliveredLeadShape: Readonly<Record<string, z.ZodType>> = Object.fromEntries(
  fields.map((field) => [field.name, describe(deliveredSchemaOf(field), field)]),
)

/** A lead as it must stand in a delivery (contract 4.2): every field, no other. */
export const deliveredLeadSchema = z.strictObject(deliveredLeadShape, {
  error: 'must be an object with the fields of a lead',
}) as unknown as z.ZodType<Lead>

/** Fills the fields that `patch` lacks with their defaults. `patch` has `href` and, unless the listing is known, `postalCode`. */
export function completeLead(patch: LeadPatch): Lead {
  const lead: Record<string, unknown> = {}
  for (const field of fields) {
    const value = patch[field.name] ?? field.default
    if (value !== undefined) lead[field.name] = value
  }
  return lead as unknown as Lead
}

/** The JSON of a lead on the wire: the fields in their order, each with its default where it is unknown. */
export function serialiseLead(patch: LeadPatch): string {
  return JSON.stringify(completeLead(patch))
}

/** Which fields `patch` knows, a bit each. */
export function givenFields(patch: LeadPatch): number {
  let given = 0
  for (let at = 0; at < fields.length; at++) {
    if (patch[(fields[at] as FieldDefinition).name] !== undefined) given |= 1 << at
  }
  return given
}

/** The required fields, as bits of `givenFields`. Every record has them, so they do not count as filled. */
export const requiredFields = fields.reduce((bits, { required }, at) => (required ? bits | (1 << at) : bits), 0)

/** The bit of `price` in `givenFields`. */
export const priceField = 1 << fields.findIndex(({ name }) => name === 'price')

/**
 * The null rule (contract 4.10): the current lead with the fields that are `given` (bits) taken from the later record, which
 * is serialised as if it were new. What the later record does not know stays.
 */
export function mergeLead(current: Lead, later: Lead, given: number): Lead {
  const merged: Record<string, unknown> = {}
  for (let at = 0; at < fields.length; at++) {
    const { name } = fields[at] as FieldDefinition
    const value = given & (1 << at) ? later[name] : current[name]
    if (value !== undefined) merged[name] = value
  }
  return merged as unknown as Lead
}
