/** Completion for shells. The script of a shell asks `completion SHELL -- WORDS` at each Tab, so that it can forget no command. */
import type { Command } from 'commander'
import type { At, ExitCode } from './describe.ts'

/** An answer that stands for the names of files, which a shell knows best. */
const files = ':'

const bash = `# leadpush, for bash: source <(leadpush completion bash)
_leadpush() {
  local word
  COMPREPLY=()
  while IFS= read -r word; do
    if [[ $word != ${files} ]]; then COMPREPLY+=("$word")
    # readline knows best how to complete files; bash 3.2 cannot ask it
    elif ! compopt -o default 2> /dev/null; then
      while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen -f -- "\${COMP_WORDS[COMP_CWORD]#=}")
    fi
  done < <(leadpush completion bash -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2> /dev/null)
}
complete -F _leadpush leadpush
`

const zsh = `#compdef leadpush
# leadpush, for zsh: leadpush completion zsh > "\${fpath[1]}/_leadpush"
_leadpush() {
  local word
  for word in "\${(@f)$(leadpush completion zsh -- "\${(@Q)words[2,CURRENT]}" 2> /dev/null)}"; do
    if [[ $word == ${files} ]]; then _files; elif [[ -n $word ]]; then compadd -- "$word"; fi
  done
}
if [ "$funcstack[1]" = _leadpush ]; then _leadpush "$@"; else compdef _leadpush leadpush; fi
`

const fish = `# leadpush, for fish: leadpush completion fish > ~/.config/fish/completions/leadpush.fish
function __leadpush
  set -l words (commandline -opc)
  set -l current (commandline -ct)
  for word in (leadpush completion fish -- $words[2..-1] "$current" 2> /dev/null)
    if test "$word" = ${files}
      __fish_complete_path "$current"
    else
      printf '%s\\n' $word
    end
  end
end
complete -c leadpush -f -a '(__leadpush)'
`

const scripts = { bash, zsh, fish }

export async function completion(
  { io, command, readSettings }: At,
  shell: keyof typeof scripts,
  words: string[],
): Promise<ExitCode> {
  readSettings()
  if (words.length === 0) await io.out.write(scripts[shell])
  else if (command.parent) await io.out.line(...complete(command.parent, words))
  return 0
}

/** What may stand in the place of an argument or a value; what only the person knows is nothing. */
const offer = (name: string, choices: readonly string[] | undefined): readonly string[] =>
  choices ?? (/file/i.test(name) ? [files] : [])

/** What may stand in the place of the last of `words`, which has been begun; the words before it are complete. */
function complete(program: Command, words: readonly string[]): readonly string[] {
  const help = program.createHelp()
  // of --option=value bash makes three words
  const [current = '', ...before] = (words.at(-1) === '=' ? [...words, ''] : [...words]).reverse()
  let command = program
  let names = help.visibleCommands(program)
  let offered: readonly string[] | undefined
  for (const word of before.reverse().filter((each) => each !== '=')) {
    const option = command.options.find(({ short, long }) => word === short || word === long)
    if (offered) offered = undefined
    else if (option) offered = option.required ? offer(option.flags, option.argChoices) : undefined
    else if (names.length > 0) {
      const next = names.find((each) => each.name() === word)
      if (!next) return []
      // `help` takes the names of its neighbours
      if (word !== 'help') names = help.visibleCommands(next)
      command = next
    }
  }
  const [argument] = command.registeredArguments
  const all =
    offered ??
    (current.startsWith('-')
      ? help.visibleOptions(command).flatMap(({ short, long }) => [short ?? '', long ?? ''])
      : names.length > 0
        ? names.map((each) => each.name())
        : argument
          ? offer(argument.name(), argument.argChoices)
          : [])
  return all.filter((each) => each === files || (each !== '' && each.startsWith(current)))
}
