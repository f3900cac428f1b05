/** The forms of numbers and postal codes that imports read: the generated parts of docs/reference/values.md. */
import { numberForms, postalForms } from '../support/value-forms.ts'
import { formatTable } from './table.ts'

const code = (text: string) => `\`${text}\``
const namesOf = (fields: 'all' | readonly string[]) => (fields === 'all' ? 'all' : fields.join(', '))

export const formatNumbers = (): string =>
  formatTable(
    ['written', 'fields', 'read as'],
    numberForms.flatMap(([written, fields, number]) =>
      number === undefined ? [] : [[code(written), namesOf(fields), String(number)]],
    ),
  )

/** What is unknown, one row for each kind of field. */
export function formatDoubtfulNumbers(): string {
  const byFields = new Map<string, string[]>()
  for (const [written, fields, number] of numberForms)
    if (number === undefined) byFields.set(namesOf(fields), [...(byFields.get(namesOf(fields)) ?? []), code(written)])
  return formatTable(
    ['fields', 'written like this it is unknown'],
    [...byFields].map(([fields, texts]) => [fields, texts.join(' ')]),
  )
}

export const formatPostalCodes = (): string =>
  formatTable(
    ['written', 'taken as'],
    postalForms.map(([written, taken]) => [code(written), code(taken)]),
  )
