/** `leadpush integrations`: the API keys of automation platforms, and the hooks that these registered. */
import type { Command } from 'commander'
import { formatCount, plural, shortId } from '../base/amounts.ts'
import type { hookRulesOf } from '../integrations/hook-address.ts'
import type { ToldHook } from '../integrations/hook-http.ts'
import type { RemovedHook } from '../integrations/hooks.ts'
import type { CreatedIntegration, ListedHook } from '../integrations/integrations.ts'
import { type Act, type ExitCode, inShort, openSecrets, settingsSource, usageError, withDatabase } from './command.ts'
import type { CommandIo } from './command-io.ts'
import { readDuration } from './options.ts'
import { paint } from './painted.ts'

interface JsonOption {
  json?: true
}

export function addIntegrations(program: Command, act: Act): void {
  const integrations = program
    .command('integrations')
    .description('Create, list, rotate and revoke the connections of automation platforms.')
  integrations
    .command('create')
    .description('Make an API key for a platform, and print it once with the signing secret of its triggers.')
    .requiredOption('--user <email>', 'the user of the integration')
    .option('--api-key <key>', 'take over a key that exists elsewhere; - reads it from standard input')
    .option('--json', 'print one JSON object')
    .addHelpText(
      'after',
      `
Examples:
  leadpush integrations create --user user@example.com
  leadpush integrations create --user user@example.com --api-key - < key.txt

A key on the command line shows in the list of processes: give - instead, and it
is read from standard input. A key has 16 to 200 visible ASCII characters. Only
its hash is stored.`,
    )
    .action(act((io: CommandIo, options: JsonOption & { user: string; apiKey?: string }) => create(io, options)))
  integrations
    .command('rotate')
    .description('Give an integration a new API key and signing secret, and print them once; the old ones end later.')
    .argument('<id>', 'as `integrations list` shows it')
    .option('--overlap <duration>', 'how long the old key and secret count beside the new ones', '24h')
    .option('--json', 'print one JSON object')
    .addHelpText(
      'after',
      `
Examples:
  leadpush integrations rotate 3
  leadpush integrations rotate 3 --overlap 0s    the old key is known to others

Until the overlap is over (0s to 365d) both keys work, and triggers bear the
signatures of both secrets. Another rotation ends the oldest key at once.`,
    )
    .action(act((io: CommandIo, id: string, options: JsonOption & { overlap: string }) => rotate(io, id, options)))
  integrations
    .command('list')
    .description('Show the integrations and their hooks, never a key.')
    .option('--json', 'print one JSON object a line')
    .addHelpText('after', '\nExamples:\n  leadpush integrations list')
    .action(act((io: CommandIo, options: JsonOption) => list(io, options)))
  integrations
    .command('revoke')
    .description('End an integration: its key, its hooks, and the triggers due for them; its platform is told.')
    .argument('<id>', 'as `integrations list` shows it')
    .option('--json', 'print one JSON object')
    .addHelpText('after', '\nExamples:\n  leadpush integrations revoke 3')
    .action(act((io: CommandIo, id: string, options: JsonOption) => revoke(io, id, options)))
}

const toWrite = { ...inShort, writes: true }

async function readWriterSettings(io: CommandIo) {
  const { readSettings } = await import('../base/config.ts')
  const names = [
    'databaseUrl',
    'home',
    'databaseAwayMs',
    'allowInsecureHooks',
    'hookHosts',
    'secretKey',
    'logFormat',
  ] as const
  return readSettings(names, settingsSource(io))
}

async function readDatabaseSettings(io: CommandIo) {
  const { readSettings } = await import('../base/config.ts')
  return readSettings(['databaseUrl', 'home', 'logFormat'], settingsSource(io))
}

/** More than any key is long. */
const inputCharsMax = 1_000

async function readKey(io: CommandIo, given: string | undefined): Promise<string | undefined> {
  if (given !== '-') return given
  let text = ''
  for await (const chunk of io.openStdin().setEncoding('utf8')) {
    text += chunk
    if (text.length > inputCharsMax) break
  }
  return text.replace(/\r?\n$/, '')
}

async function create(
  io: CommandIo,
  { user, apiKey, json }: JsonOption & { user: string; apiKey?: string },
): Promise<ExitCode> {
  const settings = await readWriterSettings(io)
  const key = await readKey(io, apiKey)
  return await withDatabase(io, settings, toWrite, async ({ db }) => {
    const { createIntegration } = await import('../integrations/integrations.ts')
    const vault = await openSecrets(db, settings, { begins: true })
    const created = await createIntegration(db, { email: user, apiKey: key, vault })
    io.out.noteLoss(
      `Integration ${created.id} was made, and its secrets could not be shown: \`leadpush integrations rotate ${created.id}\` makes others.`,
    )
    if (json) await io.out.json(created)
    else await writeSecrets(io, created)
    return 0
  })
}

async function writeSecrets(io: CommandIo, { id, user, apiKey, signingSecret }: CreatedIntegration): Promise<void> {
  await io.out.facts([
    ['id', String(id)],
    ['user', user],
    ['API key', apiKey],
    ['signing secret', signingSecret],
  ])
  await io.out.line('The key is shown this once: only a hash of it is stored.')
}

const idPattern = /^\d{1,15}$/
/** A text that is no id is not shown: it may be the API key. */
const noIntegration = (id: string) =>
  usageError(
    `There is no integration ${idPattern.test(id) ? JSON.stringify(id) : 'with this id: an id is a number'}.`,
    '`leadpush integrations list` shows them.',
  )

async function rotate(
  io: CommandIo,
  id: string,
  { overlap, json }: JsonOption & { overlap: string },
): Promise<ExitCode> {
  const overlapMs = await readDuration('--overlap', overlap, '0s', '365d')
  const settings = await readWriterSettings(io)
  return await withDatabase(io, settings, toWrite, async ({ db }) => {
    const vault = await openSecrets(db, settings, { begins: true })
    const { rotateIntegration } = await import('../integrations/integrations.ts')
    const rotated = idPattern.test(id) ? await rotateIntegration(db, Number(id), overlapMs, vault) : undefined
    if (!rotated) throw noIntegration(id)
    const { integration, oldUntil } = rotated
    io.out.noteLoss(
      `Integration ${id} has a new key and secret, which could not be shown: \`leadpush integrations rotate ${id}\` makes others, ` +
        'and the key that the platform has then ends at once.',
    )
    if (json) await io.out.json(integration)
    else {
      await writeSecrets(io, integration)
      await io.out.line(
        overlapMs > 0
          ? `The old key works until ${oldUntil.toISOString().slice(0, 16)}Z; until then triggers bear both signatures.`
          : 'The old key and the old signing secret have ended.',
      )
    }
    return 0
  })
}

/** So many integrations are a table; more of them are several. */
const tableRowsMax = 200

async function list(io: CommandIo, { json }: JsonOption): Promise<ExitCode> {
  return await withDatabase(io, await readDatabaseSettings(io), inShort, async ({ db }) => {
    const { findIntegrations } = await import('../integrations/integrations.ts')
    let rows: string[][] = []
    const flush = async () => {
      const heads = ['id', 'user', 'created', 'hook', 'hook URL', 'triggers', 'last trigger', 'missed']
      const columns = heads.map((head) => ({ head, ...(['user', 'hook URL'].includes(head) && { wide: true }) }))
      if (rows.length > 0) await io.out.table(columns, rows)
      rows = []
    }
    let integrations = 0
    for await (const integration of findIntegrations(db)) {
      integrations++
      if (json) await io.out.json({ type: 'integration', ...integration })
      else rows.push(...toRows(integration))
      if (rows.length >= tableRowsMax) await flush()
    }
    await flush()
    if (integrations === 0 && !json) {
      await io.out.line('There are no integrations yet: `leadpush integrations create --user EMAIL` makes one.')
    }
    return 0
  })
}

const day = (date: Date) => date.toISOString().slice(0, 10)

function toRows(integration: { id: number; user: string; createdAt: Date; hooks: ListedHook[] }): string[][] {
  const { id, user, createdAt, hooks } = integration
  const facts = [String(id), user, day(createdAt)]
  if (hooks.length === 0) return [[...facts, paint('dim', 'none'), '', '', '']]
  return hooks.map((hook, at) => [
    ...(at === 0 ? facts : facts.map(() => '')),
    shortId(hook.id),
    hook.url,
    hook.triggers.join(', '),
    describeLast(hook),
    describeMissed(hook),
  ])
}

function describeLast({ lastAt, lastStatus, offSince }: ListedHook): string {
  if (offSince !== null) return `${day(offSince)} ${paint('red', 'switched off')}`
  if (lastAt === null) return paint('dim', 'none yet')
  const isGood = lastStatus !== null && lastStatus >= 200 && lastStatus < 300
  const answer = lastStatus === null ? 'no answer' : `HTTP ${lastStatus}`
  return `${day(lastAt)} ${paint(isGood ? 'green' : 'red', answer)}`
}

const describeMissed = ({ abandoned, dropped }: ListedHook): string =>
  [abandoned > 0 && `${formatCount(abandoned)} abandoned`, dropped > 0 && `${formatCount(dropped)} dropped`]
    .filter(Boolean)
    .join(', ')

async function revoke(io: CommandIo, id: string, { json }: JsonOption): Promise<ExitCode> {
  const settings = await readWriterSettings(io)
  return await withDatabase(io, settings, toWrite, async ({ db }) => {
    const { revokeIntegration } = await import('../integrations/integrations.ts')
    const revoked = idPattern.test(id) ? await revokeIntegration(db, Number(id)) : undefined
    if (!revoked) throw noIntegration(id)
    const { user } = revoked
    const hooks = await tellPlatforms(settings, revoked.hooks)
    if (json) await io.out.json({ type: 'integration', id: Number(id), user, revoked: true, hooks })
    else {
      await io.out.line(`The integration ${id} of ${user} is revoked.`)
      await writeTold(io, hooks)
    }
    return 0
  })
}

/** After the hooks are gone: one `DELETE` of each URL. */
export async function tellPlatforms(
  settings: Parameters<typeof hookRulesOf>[0],
  hooks: readonly RemovedHook[],
): Promise<ToldHook[]> {
  const { hookRulesOf } = await import('../integrations/hook-address.ts')
  const { sendHookRemovals } = await import('../integrations/hook-http.ts')
  return await sendHookRemovals(hookRulesOf(settings), hooks)
}

export async function writeTold(io: CommandIo, hooks: readonly ToldHook[]): Promise<void> {
  const untold = hooks.filter(({ error }) => error !== null)
  const told = hooks.length - untold.length
  if (told > 0) await io.out.line(`${plural(told, 'hook')} removed, and the platform told.`)
  for (const { url, error } of untold)
    await io.out.line(`Hook removed, the platform did not take the DELETE: ${url}: ${error}`)
}
