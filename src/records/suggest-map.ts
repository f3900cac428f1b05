/** Which columns of a file are likely which fields: by their names, by spelling, and by their values (contract 4.18). */
import { spellingDistance } from '../base/nearest.ts'
import type { ColumnSamples } from './column-samples.ts'
import { foldColumnName } from './columns.ts'
import type { FieldMap } from './field-map.ts'

/** How exports call the fields of a kind of record, and what their values look like. */
export interface Vocabulary<Field extends string> {
  fields: readonly Field[]
  /** In lower case and without punctuation, the most telling first. */
  usualNames: Partial<Record<Field, readonly string[]>>
  /** Whether a value may be one of a field; undefined where any text may. */
  looksLike: Partial<Record<Field, (text: string) => boolean>>
  /** Names of columns that belong to something else. */
  belongsElsewhere?: RegExp
  /** From 0 to 1, of fields without which there is no record: a column without a telling name may be told by its values, not all empty. */
  byValuesAlone: Partial<Record<Field, (values: readonly string[]) => number>>
}

const bare = (name: string) => name.toLowerCase().replace(/[^\p{L}\p{N}]/gu, '')
const tokensOf = (name: string) =>
  name.replace(/([a-z])([A-Z])/g, '$1 $2').toLowerCase().split(/[^\p{L}\p{N}]+/u) // biome-ignore format: one chain

/** From this score on a name is one of the field's usual ones. */
const tellingMin = 0.7

/** From 0 to 1: how much the name of a column is like those of a field. */
function scoreName<Field extends string>(field: Field, column: string, vocabulary: Vocabulary<Field>): number {
  const names = vocabulary.usualNames[field] ?? []
  const whole = bare(column)
  const last = bare(column.split('.').at(-1) ?? '')
  if (whole === bare(field)) return 1
  if (names.includes(whole)) return 0.95 - names.indexOf(whole) / 100
  if (last === bare(field) || names.includes(last)) return 0.85 - Math.max(0, names.indexOf(last)) / 100
  if (vocabulary.belongsElsewhere?.test(column)) return 0
  const far = Math.min(
    ...[field, ...names.filter((name) => name.length > 4)].map((name) => spellingDistance(name, column)),
  )
  if (far <= 0.25) return tellingMin - far
  return tokensOf(column).some((token) => token.length > 2 && names.includes(token)) ? 0.4 : 0
}

function score<Field extends string>(
  field: Field,
  column: string,
  values: readonly string[],
  vocabulary: Vocabulary<Field>,
): number {
  const looks = vocabulary.looksLike[field]
  const byName = scoreName(field, column, vocabulary)
  const byValues = vocabulary.byValuesAlone[field]
  if (looks && values.length > 0) {
    // a name that tells needs fewer values that look right
    const shareMin = byValues && byName < tellingMin ? 0.8 : 0.5
    if (values.filter(looks).length / values.length < shareMin) return 0
  }
  if (byName > 0) return byName
  const isTold = byValues && looks && values.length > 0 && !vocabulary.belongsElsewhere?.test(column)
  return isTold ? byValues(values) : 0
}

/**
 * The columns that fields would be read from, of the fields that no column fills so far, or only with values that cannot be used
 * (`unusable`). Each column is used once.
 */
export function suggestMap<Field extends string>(
  vocabulary: Vocabulary<Field>,
  samples: ColumnSamples,
  map: FieldMap<Field> = new Map(),
  unusable: readonly Field[] = [],
): Map<Field, string> {
  const folded = new Set([...samples.keys()].map(foldColumnName))
  const sources = vocabulary.fields.map((name) => ({ name, source: foldColumnName(map.get(name)?.column ?? name) }))
  const used = new Set(sources.map(({ source }) => source))
  const lacking = sources
    .filter(({ name, source }) => !folded.has(source) || unusable.includes(name))
    .map(({ name }) => name)
  const pairs = [...samples].flatMap(([column, values]) =>
    used.has(foldColumnName(column))
      ? []
      : lacking.map((field) => ({ field, column, score: score(field, column, values, vocabulary) })),
  )
  const found = new Map<Field, string>()
  const taken = new Set<string>()
  for (const pair of pairs.sort((a, b) => b.score - a.score)) {
    if (pair.score === 0 || found.has(pair.field) || taken.has(pair.column)) continue
    found.set(pair.field, pair.column)
    taken.add(pair.column)
  }
  return new Map(
    lacking.flatMap((field): [Field, string][] => (found.has(field) ? [[field, found.get(field) as string]] : [])),
  )
}
