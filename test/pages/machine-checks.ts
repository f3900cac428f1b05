/** The table of the checks of `validate`, a generated part of docs/monitor.md: every check of the program, in its order; meanings from here. */
import { checkTitles } from '../../src/inspect/machine/run-checks.ts'
import { formatTable } from './table.ts'

const meanings = new Map([
  ['Node.js', 'whether it still gets security fixes'],
  ['settings', 'every name and value'],
  ['secrets', 'whether other users may read a file with settings'],
  ['database', 'whether it is there, and a primary server'],
  ['writing', 'whether it takes changes'],
  ['durability', 'whether it keeps confirmed changes through a crash'],
  ['standbys', 'whether a synchronous standby has the confirmed changes, or commits wait for one that is away'],
  ['schema', 'whether it is current'],
  ['rights', 'whether they suffice'],
  ['connections', 'whether there are enough'],
  ['encryption', 'whether everything is encrypted with `LEADPUSH_SECRET_KEY`'],
  ['clock', "this machine's against the database's"],
  ['time zone', "against the last run's"],
  ['certificate', 'from when to when the client certificate and its chain are valid'],
  ['receiver', 'whether it is reached, through which proxy, what it answers to a HEAD, and, without a proxy, how long its certificate lasts'],
  ['schedule', 'whether a crontab or a timer runs the weekly push, and whether that line finds the program'],
  ['disk', 'whether there is room'],
]) // biome-ignore format: a list

export function formatChecks(): string {
  const surplus = [...meanings.keys()].find((title) => !checkTitles.includes(title))
  if (surplus !== undefined) throw new Error(`there is no check ${surplus}`)
  const rows = checkTitles.map((title) => {
    const meaning = meanings.get(title)
    if (meaning === undefined) throw new Error(`say what the check ${title} looks at`)
    return [title, meaning]
  })
  return formatTable(['check', 'what it looks at'], rows)
}
