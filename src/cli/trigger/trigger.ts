/** Sends events of leads to the hooks of automation platforms. */
import { formatCount, idCharsMin, plural, seconds } from '../../base/amounts.ts'
import { usageError } from '../../base/errors.ts'
import { apiKeyCharsMin, lostKeptDays } from '../../base/limits.ts'
import type { Database, OpenDatabase } from '../../db/open.ts'
import type { TriggerLine, TriggerSummaryLine } from '../../index.ts'
import { findHookIds } from '../../integrations/hooks.ts'
import { openVault, type Vault } from '../../secrets/vault.ts'
import type { LostToRenew } from '../../triggers/lost-triggers.ts'
import { runTriggers } from '../../triggers/triggers.ts'
import type { CommandIo } from '../command-io.ts'
import type { AtDatabase, ExitCode } from '../describe.ts'
import { keepMetricsFile, type RunFigures } from '../metrics-file.ts'
import { readDuration } from '../option-values.ts'
import { paint } from '../painted.ts'
import { startProgress } from '../progress.ts'
import type { TriggerSetting, TriggerSettings } from './settings.ts'

/** A person is shown at most so many failed triggers; the others are counted. */
const shownMax = 50

const uuid = /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/i
/** Only the beginning of a text is shown that may be an API key. */
const nameOf = (id: string) =>
  id.length < apiKeyCharsMin || uuid.test(id)
    ? JSON.stringify(id)
    : `${JSON.stringify(`${id.slice(0, 4)}…`)} (${id.length} characters)`

/** The id of the one hook that `given` names, by its whole id or the beginning of it. Throws `usage`. */
async function findHook(db: Database, given: string): Promise<string> {
  const [id, another] = await findHookIds(db, given)
  if (id !== undefined && another === undefined) return id
  throw another === undefined
    ? usageError(
        `There is no hook ${nameOf(given)}: an id is a UUID, or its first ${idCharsMin} characters or more.`,
        '`leadpush integrations list` shows them.',
      )
    : usageError(
        `Several hooks have ids that begin with ${nameOf(given)}.`,
        '`leadpush integrations list --json` shows whole ids.',
      )
}

interface TriggerOptions {
  again?: true
  hook?: string
  since?: string
  metricsFile?: string
}

export async function trigger(
  { io, readSettings, open }: AtDatabase<TriggerSetting>,
  { again, hook, since, metricsFile }: TriggerOptions,
): Promise<ExitCode> {
  const metrics = keepMetricsFile(io, metricsFile, 'leadpush_trigger', again ? 'again' : 'trigger')
  readSettings()
  const sinceMs = since === undefined ? undefined : readDuration('--since', since, '1s', `${lostKeptDays}d`)
  return await open(async (opened, settings) => {
    const vault = await openVault(opened.db, settings)
    const hookId = hook === undefined ? undefined : await findHook(opened.db, hook)
    return await sendTriggers(io, opened, settings, { vault, again: again && { hookId, sinceMs }, metrics })
  })
}

/** Runs `trigger` with all its output. */
export async function sendTriggers(
  io: CommandIo,
  opened: OpenDatabase,
  settings: TriggerSettings,
  { vault, again, metrics }: { vault: Vault; again?: LostToRenew | undefined; metrics?: RunFigures | undefined },
): Promise<ExitCode> {
  const stop = io.stops.listen((signal) =>
    io.log.info(
      `${signal}: finishing the attempts under way, and beginning nothing new; a second signal stops at once.`,
    ),
  )
  let done = 0
  let undelivered = 0
  const progress = await startProgress(io, () => `${plural(done, 'trigger')} sent`)
  const summary = await runTriggers({
    opened,
    vault,
    settings,
    stop: stop.signal,
    again,
    onNote: (text) => io.log.warn(text),
    onTrigger(line, durationMs) {
      done++
      metrics?.attempt({ durationMs })
      const { integration, webhookId, hook, attempts, httpStatus, error } = line
      const what = error === null ? 'trigger delivered' : 'trigger not delivered'
      io.log.detail(what, { integration, hook, webhookId, attempt: attempts, durationMs, httpStatus, error })
      const isShown = line.status !== 'delivered' && ++undelivered <= shownMax
      io.out.resultSoon(line, ...(isShown ? [describe(line)] : []))
    },
  })
  progress.stop()
  metrics?.end(summary, !stop.signal.aborted)
  await io.out.result(summary, async () => {
    await io.out.more(undelivered - shownMax)
    await writeSummary(io, summary)
  })
  return stop.exitCode ?? (summary.abandoned > 0 ? 1 : 0)
}

function describe({ hook, href, status, attempts, error }: TriggerLine): string {
  const painted = paint(status === 'abandoned' ? 'red' : 'yellow', status)
  return `${href}  ${painted}  hook ${hook}, attempt ${attempts}${error === null ? '' : `: ${error}`}`
}

async function writeSummary(io: CommandIo, summary: TriggerSummaryLine): Promise<void> {
  const { due, delivered, failed, abandoned, removed, dropped, waiting } = summary
  await io.out.facts([
    ['due', plural(due, 'trigger')],
    ['delivered', paint('green', formatCount(delivered))],
    failed > 0 && ['failed', `${paint('yellow', formatCount(failed))}, to be tried again by later runs`],
    abandoned > 0 && ['abandoned', `${paint('red', formatCount(abandoned))} after their last attempt`],
    removed > 0 && ['removed', `${formatCount(removed)}: the platform has ended the hook`],
    dropped > 0 && ['dropped', `${formatCount(dropped)} beyond the newest of a hook`],
    waiting > 0 && ['waiting', `${formatCount(waiting)} for the end of a pause of their hooks`],
    ['took', seconds(summary.seconds)],
  ])
  if (abandoned > 0) await io.out.line('Which hooks are in trouble, and why: leadpush status')
}
