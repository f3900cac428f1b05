/** Values that a command reads from a file or standard input, because the list of processes shows arguments. */
import { codeOf, messageOf, usageError } from '../base/errors.ts'
import { readSmallFile } from '../base/small-file.ts'
import type { CommandIo } from './command-io.ts'

/** All of standard input. Throws if it is longer than `bytesMax`. */
async function readInput(io: CommandIo, bytesMax: number): Promise<string> {
  let text = ''
  for await (const chunk of io.openStdin().setEncoding('utf8')) {
    text += chunk
    if (text.length > bytesMax) throw new Error(`it holds more than ${bytesMax} bytes`)
  }
  return text
}

/** The value of an option, or standard input if that is `-`. Throws `usage`. */
export async function valueOrInput(io: CommandIo, flag: string, value: string, bytesMax: number): Promise<string> {
  if (value !== '-') return value
  return await readInput(io, bytesMax).catch((error) => {
    throw usageError(`${flag}: standard input cannot be read: ${messageOf(error)}`)
  })
}

/** The text of the file that an option names; `-` is standard input. Throws `usage`. */
export async function fileOrInput(io: CommandIo, flag: string, file: string, bytesMax: number): Promise<string> {
  try {
    return file === '-' ? await readInput(io, bytesMax) : readSmallFile(file, bytesMax)
  } catch (error) {
    const why = codeOf(error) === 'ENOENT' ? 'there is no such file' : messageOf(error)
    throw usageError(`${flag}: ${JSON.stringify(file)} cannot be read: ${why}`)
  }
}
