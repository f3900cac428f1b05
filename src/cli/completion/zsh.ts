/** Completion for zsh: a file for its fpath, which may be sourced as well. A function a command. */
import { quote, type Value, type WordCommand, type WordOption } from './words.ts'

const functionOf = (path: string) => `_leadpush${path && `_${path.replace(/\W/g, '_')}`}`
/** In the brackets and between the colons of _arguments. */
const escapeSpec = (text: string) => text.replace(/[[\]:\\]/g, '\\$&')

function action(value: Value): string {
  if (value.kind === 'file') return 'file:_files'
  if (value.kind === 'choice') return `word:(${value.choices.join(' ')})`
  return `${escapeSpec(value.name)}: `
}

function optionSpec({ flags, description, value }: WordOption): string {
  const says = `[${escapeSpec(description)}]`
  const takes = value ? `:${value.isOptional ? ':' : ''}${action(value)}` : ''
  const [one = '', ...others] = flags
  if (others.length > 0) return `'(${flags.join(' ')})'{${flags.join(',')}}${quote(says + takes)}`
  // some may stand several times; =: the value is the next word, or follows an equals sign
  return quote(`${value ? '*' : ''}${one}${value ? (value.isOptional ? '=-' : '=') : ''}${says}${takes}`)
}

function writeCommand({ path, options, commands, argument }: WordCommand): string {
  const specs = options.map(optionSpec)
  if (commands.length === 0) {
    if (argument) specs.push(quote(`*:${action(argument)}`))
    return `${functionOf(path)}() {\n  _arguments -s -S ${specs.map((spec) => `\\\n    ${spec}`).join(' ')}\n}\n`
  }
  const items = commands.map(({ name, description }) => `    ${quote(`${name}:${description}`)}`)
  const calls = commands.map(({ name }) => `        ${name}) ${functionOf(`${path} ${name}`.trim())} ;;`)
  return `${functionOf(path)}() {
  local context state state_descr line
  typeset -A opt_args
  local -a commands=(
${items.join('\n')}
  )
  _arguments -C ${specs.map((spec) => `\\\n    ${spec}`).join(' ')} \\
    '1: :->command' '*:: :->rest'
  case $state in
    command) _describe command commands ;;
    rest)
      case $words[1] in
${calls.join('\n')}
      esac
      ;;
  esac
}
`
}

export function writeZsh(commands: readonly WordCommand[]): string {
  return `#compdef leadpush
# leadpush, for zsh: leadpush completion zsh > "\${fpath[1]}/_leadpush"

${commands.map(writeCommand).join('\n')}
if [ "$funcstack[1]" = _leadpush ]; then _leadpush "$@"; else compdef _leadpush leadpush; fi
`
}
