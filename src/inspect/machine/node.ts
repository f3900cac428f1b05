/** Checks whether the Node.js that runs the program still gets security fixes. */
import { type Found, note, problem } from '../finding.ts'
import type { Check } from './check.ts'

/** The last day with security fixes, by the major version. */
const endOfLife: Readonly<Record<number, string>> = { 20: '2026-04-30', 22: '2027-04-30', 24: '2028-04-30' }
const needed = [20, 19] as const
const newer = 'Install the newest long-term version of Node.js.'

/** `version` as in `process.versions.node`. */
export function judgeNode(version: string, now: Date): Found[] {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  if (major < needed[0] || (major === needed[0] && minor < needed[1]))
    return [problem(`This is ${version}: leadpush needs ${needed.join('.')} or newer`, newer)]
  const end = endOfLife[major]
  if (end !== undefined && now.toISOString().slice(0, 10) > end)
    return [note(`${version} has had no security fixes since ${end}`, newer)]
  // before 26, major versions outside the table were supported for half a year only
  return end === undefined && major < 26
    ? [note(`${version} is not a long-term version, and gets no more security fixes`, newer)]
    : []
}

export const nodeCheck: Check = {
  code: 'node',
  title: 'Node.js',
  run: () => judgeNode(process.versions.node, new Date()),
}
