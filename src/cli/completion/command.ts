/** `leadpush completion`: a script with which a shell completes commands, options, choices and files; it starts nothing itself. */
import { Argument, type Command } from 'commander'
import { type Act, type ExitCode, settingsSource } from '../command.ts'
import type { CommandIo } from '../command-io.ts'

const shells = ['bash', 'zsh', 'fish'] as const

export function addCompletion(program: Command, act: Act): void {
  program
    .command('completion')
    .description('Print a script with which a shell completes the words of a command.')
    .addArgument(new Argument('<shell>', 'for which shell').choices(shells))
    .addHelpText(
      'after',
      `
Print it again after an upgrade.

Examples:
  source <(leadpush completion bash)     this shell; each: a line in ~/.bashrc
  leadpush completion zsh > "\${fpath[1]}/_leadpush"        then start zsh anew
  leadpush completion fish > ~/.config/fish/completions/leadpush.fish`,
    )
    .action(act((io: CommandIo, shell: (typeof shells)[number]) => print(io, program, shell)))
}

async function print(io: CommandIo, program: Command, shell: (typeof shells)[number]): Promise<ExitCode> {
  const { readSettings } = await import('../../base/config.ts')
  const { listCommands } = await import('./words.ts')
  readSettings(['logFormat'], settingsSource(io))
  const commands = listCommands(program)
  const script = {
    bash: async () => (await import('./bash.ts')).writeBash(commands),
    zsh: async () => (await import('./zsh.ts')).writeZsh(commands),
    fish: async () => (await import('./fish.ts')).writeFish(commands),
  }[shell]
  await io.out.write(await script())
  return 0
}
