/** A finding for people: its place, what is wrong and what to do, in lines that fit the terminal. All commands show findings so. */
import { type Finding, sentenceOf } from '../inspect/finding.ts'
import type { CommandIo } from './command-io.ts'
import { paint } from './painted.ts'

const styles = { problem: 'red', note: 'yellow', skipped: 'dim' } as const

export async function writeFinding(io: CommandIo, finding: Finding): Promise<void> {
  const { level, where } = finding
  const indent = `${where}  ${level}  `.length
  await io.out.line(`${where}  ${paint(styles[level], level)}  ${io.out.wrap(sentenceOf(finding), indent)}`)
}
