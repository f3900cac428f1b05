/** A script with which a shell completes commands, options, choices and files; it starts nothing itself. */
import type { At, ExitCode } from '../describe.ts'
import { writeBash } from './bash.ts'
import { writeFish } from './fish.ts'
import { listCommands } from './words.ts'
import { writeZsh } from './zsh.ts'

const writers = { bash: writeBash, zsh: writeZsh, fish: writeFish }

export async function completion({ io, command, readSettings }: At, shell: keyof typeof writers): Promise<ExitCode> {
  readSettings()
  if (command.parent) await io.out.write(writers[shell](listCommands(command.parent)))
  return 0
}
