/** Which columns of a file are likely which fields of a listing: by their names, by spelling, and by their values (contract 4.18). */
import { spellingDistance } from '../base/nearest.ts'
import { foldName } from '../records/columns.ts'
import type { FieldMap } from './field-map.ts'
import { type LeadField, leadFields } from './lead.ts'
import { looksLike, usualNames } from './usual-names.ts'

/** Columns of a file with some of their values that are not empty. */
export type ColumnSamples = ReadonlyMap<string, readonly string[]>

const bare = (name: string) => name.toLowerCase().replace(/[^\p{L}\p{N}]/gu, '')
const tokensOf = (name: string) =>
  name.replace(/([a-z])([A-Z])/g, '$1 $2').toLowerCase().split(/[^\p{L}\p{N}]+/u) // biome-ignore format: one chain
/** Columns of URLs, numbers and names that belong to something else than the listing; a county is spelt nearly as a country. */
const belongsElsewhere = /photo|image|img|thumb|tour|video|logo|map|sold|tax|assess|estimat|lot|hoa|rent|half|county/i

/** From this score on a name is one of the field's usual ones. */
const tellingMin = 0.7

/** From 0 to 1: how much the name of a column is like those of a field. */
function scoreName(field: LeadField, column: string): number {
  const names = usualNames[field] ?? []
  const whole = bare(column)
  const last = bare(column.split('.').at(-1) ?? '')
  if (whole === bare(field)) return 1
  if (names.includes(whole)) return 0.95 - names.indexOf(whole) / 100
  if (last === bare(field) || names.includes(last)) return 0.85 - Math.max(0, names.indexOf(last)) / 100
  if (belongsElsewhere.test(column)) return 0
  const far = Math.min(
    ...[field, ...names.filter((name) => name.length > 4)].map((name) => spellingDistance(name, column)),
  )
  if (far <= 0.25) return 0.7 - far
  return tokensOf(column).some((token) => token.length > 2 && names.includes(token)) ? 0.4 : 0
}

/** From 0 to 1: how many values look like those of a field; undefined where that cannot be told. */
function scoreValues(field: LeadField, values: readonly string[]): number | undefined {
  const looks = looksLike[field]
  return looks && values.length > 0 ? values.filter(looks).length / values.length : undefined
}

/** A column without a telling name may still be told by its values: URLs that differ, or codes that are no round prices. */
function scoreByValuesAlone(field: LeadField, column: string, values: readonly string[]): number {
  if (values.length === 0 || belongsElsewhere.test(column)) return 0
  const distinct = new Set(values).size / values.length
  if (field === 'href') return distinct > 0.9 ? 0.2 : 0
  const isRound = values.filter((value) => value.endsWith('00')).length > values.length / 4
  return field === 'postalCode' && !isRound ? 0.1 : 0
}

function score(field: LeadField, column: string, values: readonly string[]): number {
  const share = scoreValues(field, values)
  const byName = scoreName(field, column)
  const isNeeded = field === 'href' || field === 'postalCode'
  // a name that tells needs fewer values that look right
  const shareMin = isNeeded && byName < tellingMin ? 0.8 : 0.5
  if (share !== undefined && share < shareMin) return 0
  if (byName > 0) return byName
  return isNeeded && share !== undefined ? scoreByValuesAlone(field, column, values) : 0
}

/**
 * The columns that fields would be read from, of the fields that no column fills so far, or only with values that cannot be used
 * (`unusable`). Each column is used once.
 */
export function suggestMap(
  samples: ColumnSamples,
  map: FieldMap = new Map(),
  unusable: readonly LeadField[] = [],
): Map<LeadField, string> {
  const folded = new Set([...samples.keys()].map(foldName))
  const sources = leadFields.map(({ name }) => ({ name, source: foldName(map.get(name)?.column ?? name) }))
  const used = new Set(sources.map(({ source }) => source))
  const lacking = sources
    .filter(({ name, source }) => !folded.has(source) || unusable.includes(name))
    .map(({ name }) => name)
  const pairs = [...samples].flatMap(([column, values]) =>
    used.has(foldName(column)) ? [] : lacking.map((field) => ({ field, column, score: score(field, column, values) })),
  )
  const found = new Map<LeadField, string>()
  const taken = new Set<string>()
  for (const pair of pairs.sort((a, b) => b.score - a.score)) {
    if (pair.score === 0 || found.has(pair.field) || taken.has(pair.column)) continue
    found.set(pair.field, pair.column)
    taken.add(pair.column)
  }
  return new Map(
    lacking.flatMap((field): [LeadField, string][] => (found.has(field) ? [[field, found.get(field) as string]] : [])),
  )
}
