/** Completion for fish. */
import { listValues, stepsTo, type Value, type WordCommand } from './words.ts'

/** In the single quotes of fish a backslash escapes. */
const quote = (text: string) => `'${text.replace(/['\\]/g, '\\$&')}'`

const offer = (value: Value): string =>
  value.kind === 'file' ? ' -F' : value.kind === 'choice' ? ` -f -a ${quote(value.choices.join(' '))}` : ' -f'

function writeCommand({ path, options, commands, argument }: WordCommand): string[] {
  const begin = `complete -c leadpush -n ${quote(`__leadpush_at ${quote(path)}`)}`
  const lines = commands.map(({ name, description }) => `${begin} -a ${name} -d ${quote(description)}`)
  if (argument) lines.push(`${begin}${offer(argument)}`)
  for (const { flags, description, value } of options) {
    const names = flags.map((flag) => (flag.startsWith('--') ? `-l ${flag.slice(2)}` : `-s ${flag.slice(1)}`)).join(' ')
    const takes = value && !value.isOptional ? ` -r${offer(value)}` : ''
    lines.push(`${begin} ${names}${takes} -d ${quote(description)}`)
  }
  return lines
}

export function writeFish(commands: readonly WordCommand[]): string {
  const steps = stepsTo(commands).map(([key, path]) => `      case ${quote(key)}\n        set at ${quote(path)}`)
  return `# leadpush, for fish: leadpush completion fish > ~/.config/fish/completions/leadpush.fish
function __leadpush_at -d 'Whether the words so far lead to this command'
  set -l words (commandline -opc)
  set -e words[1]
  set -l at ''
  set -l skip 0
  for word in $words
    if test $skip = 1
      set skip 0
      continue
    end
    switch "$at|$word"
${steps.join('\n')}
      case ${listValues(commands)
        .map(([key]) => quote(key))
        .join(' ')}
        set skip 1
    end
  end
  test "$at" = "$argv[1]"
end

complete -c leadpush -f
${commands.flatMap(writeCommand).join('\n')}
`
}
