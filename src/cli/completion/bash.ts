/** Completion for bash, 3.2 and newer; the package bash-completion is not needed. */
import { listValues, quote, stepsTo, type Value, type WordCommand } from './words.ts'

/** `patterns` as the shell reads them. */
const writeCases = (entries: readonly (readonly [patterns: readonly string[], then: string])[]): string =>
  entries
    .filter(([patterns, then]) => patterns.length > 0 && then !== '')
    .map(([patterns, then]) => `    ${patterns.join('|')}) ${then} ;;`)
    .join('\n')

const offerWords = (words: readonly string[]) => (words.length > 0 ? `_leadpush_words ${quote(words.join(' '))}` : '')

const offer = (value: Value | undefined): string =>
  value?.kind === 'file' ? '_leadpush_files' : value?.kind === 'choice' ? offerWords(value.choices) : ''

export function writeBash(commands: readonly WordCommand[]): string {
  const values = listValues(commands)
  const keys = values.map(([key]) => quote(key))
  const steps = stepsTo(commands).map(([key, path]) => [[quote(key)], `at=${quote(path)}`] as const)
  const offersOfValues = values.map(
    ([key, value]) => [[quote(key)], offer(value) && `${offer(value)}; return`] as const,
  )
  const flagsAt = commands.map(({ path, options }) => {
    return [[`-*${quote(`|${path}`)}`], offerWords(options.flatMap(({ flags }) => flags))] as const
  })
  const offersAt = commands.map(({ path, commands: next, argument }) => {
    return [[quote(path)], next.length > 0 ? offerWords(next.map(({ name }) => name)) : offer(argument)] as const
  })
  return `# leadpush, for bash: source <(leadpush completion bash)
_leadpush_words() {
  local word
  for word in $1; do [[ $word == "$cur"* ]] && COMPREPLY+=("$word"); done
}

_leadpush_files() {
  # readline knows best how to complete files
  compopt -o default 2> /dev/null && return
  local file
  while IFS= read -r file; do COMPREPLY+=("$file"); done < <(compgen -f -- "$cur")
}

_leadpush() {
  local cur=\${COMP_WORDS[COMP_CWORD]} prev=\${COMP_WORDS[COMP_CWORD-1]} at= i
  COMPREPLY=()
  # of --option=value bash makes three words
  if [[ $prev == = ]]; then prev=\${COMP_WORDS[COMP_CWORD-2]}; fi
  if [[ $cur == = ]]; then cur=; fi
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "$at|\${COMP_WORDS[i]}" in
${writeCases([...steps, [keys, '((i++))']])}
    esac
  done
  case "$at|$prev" in
${writeCases([...offersOfValues, [keys, 'return']])}
  esac
  case "$cur|$at" in
${writeCases(flagsAt)}
  esac
  if [[ $cur == -* ]]; then return; fi
  case "$at" in
${writeCases(offersAt)}
  esac
}

complete -F _leadpush leadpush
`
}
