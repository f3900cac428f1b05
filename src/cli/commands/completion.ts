/** `leadpush completion`. */
import { argument, describe } from '../describe.ts'

export const completion = describe({
  name: 'completion',
  about: 'Print a script with which a shell completes the words of a command.',
  arguments: [
    argument('<shell>', 'for which shell').choices(['bash', 'zsh', 'fish']),
    argument('[words...]', 'words of a command: prints the completions of the last one, for the script'),
  ],
  help: `
Examples:
  source <(leadpush completion bash)     this shell; each: a line in ~/.bashrc
  leadpush completion zsh > "\${fpath[1]}/_leadpush"        then start zsh anew
  leadpush completion fish > ~/.config/fish/completions/leadpush.fish`,
  work: async () => (await import('../completion.ts')).completion,
})
