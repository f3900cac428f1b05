/** What commands print with `--json`: the generated parts of docs/reference/json.md. */
import { jsonLines, type Line, meanings, pushLines } from '../support/json-lines.ts'
import { formatTable } from './table.ts'

const code = (text: string) => `\`${text}\``

function formatLine({ type, like, fields }: Line): string {
  const named = fields.map((field) => field.replace(/^\w+/, '"$&"'))
  return code(`{${[...(type ? [`"type":"${type}"`] : []), ...(like ? ['…'] : []), ...named].join(',')}}`)
}

const ofDemo: ReadonlySet<Line> = new Set(Object.values(pushLines))

function formatCell(command: string, lines: readonly Line[]): string {
  const own = command === 'demo' ? lines : lines.filter((line) => !ofDemo.has(line))
  return [...(own.length < lines.length ? ['those of `demo`'] : []), ...own.map(formatLine)].join(', ')
}

/** Commands with the same lines share a row. */
export function formatJsonLines(): string {
  const commandsOf = new Map<string, string[]>()
  for (const [command, lines] of Object.entries(jsonLines)) {
    const cell = formatCell(command, lines)
    commandsOf.set(cell, [...(commandsOf.get(cell) ?? []), command])
  }
  return formatTable(
    ['command with `--json`', 'its lines'],
    [...commandsOf].map(([cell, commands]) => [commands.map(code).join(', '), cell]),
  )
}

export const formatJsonFields = (): string =>
  formatTable(
    ['lines of', 'field', 'what it is'],
    Object.entries(meanings).flatMap(([commands, fields]) =>
      Object.entries(fields).map(([names, meaning], index) => [
        index === 0 ? commands.split(', ').map(code).join(', ') : '',
        names.split(', ').map(code).join(', '),
        meaning,
      ]),
    ),
  )
