/** The API keys of automation platforms, and the hooks that these registered. */
import { formatCount, formatStatus, shortId } from '../base/amounts.ts'
import { usageError } from '../base/errors.ts'
import { hookRulesOf } from '../integrations/hook-address.ts'
import { sendHookRemovals } from '../integrations/hook-http.ts'
import {
  type CreatedIntegration,
  createIntegration,
  findIntegrations,
  type ListedHook,
  revokeIntegration,
  rotateIntegration,
} from '../integrations/integrations.ts'
import { openVault } from '../secrets/vault.ts'
import type { CommandIo } from './command-io.ts'
import type { AtDatabase, ExitCode } from './describe.ts'
import { valueOrInput } from './input.ts'
import { readDuration } from './option-values.ts'
import { paint } from './painted.ts'
import { writeTold } from './told-platforms.ts'

/** More than any key is long. */
const keyBytesMax = 1_000

export async function create(
  { io, open, readSettings }: AtDatabase<'secretKey'>,
  { user, apiKey }: { user: string; apiKey?: string },
): Promise<ExitCode> {
  readSettings()
  const given = apiKey === undefined ? undefined : await valueOrInput(io, '--api-key', apiKey, keyBytesMax)
  return await open(async ({ db }, settings) => {
    const vault = await openVault(db, settings, { begins: true })
    const created = await createIntegration(db, { email: user, apiKey: given?.replace(/\r?\n$/, ''), vault })
    io.out.noteLoss(
      `Integration ${created.id} was made, but its secrets could not be shown: \`leadpush integrations rotate ${created.id}\` makes new ones.`,
    )
    await io.out.result(created, () => writeSecrets(io, created))
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
/** A text that is not an id is not shown: it may be the API key. */
const noIntegration = (id: string) =>
  usageError(
    `There is no integration ${idPattern.test(id) ? JSON.stringify(id) : 'with this id: an id is a number'}.`,
    '`leadpush integrations list` shows them.',
  )

export async function rotate(
  { io, open, readSettings }: AtDatabase<'secretKey'>,
  id: string,
  { overlap }: { overlap: string },
): Promise<ExitCode> {
  readSettings()
  const overlapMs = readDuration('--overlap', overlap, '0s', '365d')
  return await open(async ({ db }, settings) => {
    const vault = await openVault(db, settings, { begins: true })
    const rotated = idPattern.test(id) ? await rotateIntegration(db, Number(id), overlapMs, vault) : undefined
    if (!rotated) throw noIntegration(id)
    const { integration, oldUntil } = rotated
    io.out.noteLoss(
      `Integration ${id} has a new key and secret, which could not be shown: \`leadpush integrations rotate ${id}\` makes new ones, ` +
        'and the key that the platform has then ends at once.',
    )
    await io.out.result(integration, async () => {
      await writeSecrets(io, integration)
      await io.out.line(
        overlapMs > 0
          ? `The old key works until ${oldUntil.toISOString().slice(0, 16)}Z; until then triggers bear both signatures.`
          : 'The old key and the old signing secret have ended.',
      )
    })
    return 0
  })
}

const columns = ['id', 'user', 'created', 'hook', 'hook URL', 'triggers', 'last trigger', 'missed'].map((head) => ({
  head,
  wide: ['user', 'hook URL'].includes(head),
}))

export async function list({ io, open }: AtDatabase): Promise<ExitCode> {
  return await open(async ({ db }) => {
    await io.out.list(findIntegrations(db), {
      columns,
      toRows,
      toLine: (integration) => ({ type: 'integration', ...integration }),
      none: 'There are no integrations yet: `leadpush integrations create --user EMAIL` makes one.',
    })
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
  return `${day(lastAt)} ${paint(isGood ? 'green' : 'red', formatStatus(lastStatus))}`
}

const describeMissed = ({ abandoned, dropped }: ListedHook): string =>
  [abandoned > 0 && `${formatCount(abandoned)} abandoned`, dropped > 0 && `${formatCount(dropped)} dropped`]
    .filter(Boolean)
    .join(', ')

export async function revoke(
  { io, open }: AtDatabase<'allowInsecureHooks' | 'hookHosts'>,
  id: string,
): Promise<ExitCode> {
  return await open(async ({ db }, settings) => {
    const revoked = idPattern.test(id) ? await revokeIntegration(db, Number(id)) : undefined
    if (!revoked) throw noIntegration(id)
    const { user } = revoked
    const hooks = await sendHookRemovals(hookRulesOf(settings), revoked.hooks)
    await io.out.result({ type: 'integration', id: Number(id), user, revoked: true, hooks }, async () => {
      await io.out.line(`The integration ${id} of ${user} is revoked.`)
      await writeTold(io, hooks)
    })
    return 0
  })
}
