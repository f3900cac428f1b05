/** Checks the program itself: its version, and whether its Node.js still gets security fixes. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { packageRoot, packageVersion } from '../../base/package-root.ts'
import { type Check, failure, judge, pass, type Verdict, warning } from './check.ts'

/** The last day with security fixes, by the major version. */
const endOfLife: Readonly<Record<number, string>> = { 20: '2026-04-30', 22: '2027-04-30', 24: '2028-04-30' }
const needed = [20, 19] as const
const newer = 'Install the newest long-term version of Node.js.'

/** `version` as in `process.versions.node`. */
export function judgeNode(version: string, now: Date): Verdict {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  if (major < needed[0] || (major === needed[0] && minor < needed[1])) {
    return judge('', [failure(`This is ${version}: leadpush needs ${needed.join('.')} or newer.`, newer)])
  }
  const end = endOfLife[major]
  if (end !== undefined && now.toISOString().slice(0, 10) > end) {
    return judge('', [warning(`${version} has had no security fixes since ${end}.`, newer)])
  }
  // before 26, major versions outside the table were supported for half a year only
  if (end === undefined && major < 26) {
    return judge('', [warning(`${version} is no long-term version, and has no security fixes any more.`, newer)])
  }
  return pass(`${version}${end === undefined ? '' : `, with security fixes until ${end}`}`)
}

export const installationChecks: readonly Check[] = [
  { name: 'node', title: 'Node.js', run: async () => judgeNode(process.versions.node, new Date()) },
  {
    name: 'leadpush',
    title: 'leadpush',
    run: async () => {
      const kind = existsSync(join(packageRoot, 'src')) ? 'a checkout' : 'the package'
      return pass(`${packageVersion}, ${kind} in ${packageRoot}`)
    },
  },
]
