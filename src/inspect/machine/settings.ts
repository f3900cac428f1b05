/** Checks the settings: each by itself, all together, and for a push; and whether others can read files with secrets. */
import { stat } from 'node:fs/promises'
import { isIP } from 'node:net'
import { join } from 'node:path'
import { codeOf } from '../../base/errors.ts'
import { isInsideName, isPublicAddress } from '../../integrations/hook-address.ts'
import { type Found, note, problem } from '../finding.ts'
import type { Check, CheckContext } from './check.ts'

/** Whether `hostname`, written as in a URL, is this machine or in its private network. */
export function isLocalHost(hostname: string): boolean {
  const host = hostname.replace(/^\[|\]$/g, '')
  return isIP(host) === 0 ? isInsideName(host) : !isPublicAddress(host)
}

/** A problem in the words of a command that refuses the setting: `LEADPUSH_RATE: holds "fast"; …`. */
export function ofSetting(text: string, toDo?: string): Found {
  const [, path = '', what = text] = /^([A-Z_]+): (.*)$/s.exec(text) ?? []
  return { ...problem(what, toDo, path), where: 'settings' }
}

export function* judgeReceiverUrl(receiverUrl: string | undefined): Generator<Found> {
  const path = 'LEADPUSH_RECEIVER_URL'
  if (receiverUrl === undefined) {
    const toDo = "Set it to the receiver's full URL, such as https://receiver.example/leads."
    yield problem('is not set: a push needs to know where to send', toDo, path)
  } else if (/^http:/i.test(receiverUrl) && !isLocalHost(new URL(receiverUrl).hostname)) {
    const what = 'is http: to a host that is not local: keys and contacts travel where others can read them'
    yield note(what, 'Use https: if the receiver has it.', path)
  }
  if (receiverUrl?.includes('?')) {
    const what = 'has query parameters, which the interface of a delivery does not have: a receiver may refuse them'
    yield note(what, 'Leave them out, unless the receiver asks for them.', path)
  }
}

/** Values that may be secret are not quoted. */
function checkSettings({ inspection }: CheckContext): Found[] {
  const { receiverUrl, allowInsecureHooks } = inspection.settings
  const correct = 'Correct it in the environment, in .env, or in the file that its NAME_FILE names.'
  const found = inspection.problems.map((text) => ofSetting(text, correct))
  if (!inspection.wrong.has('receiverUrl')) found.push(...judgeReceiverUrl(receiverUrl))
  if (allowInsecureHooks !== undefined) {
    const what = 'is set: hooks may be http: and lead to private addresses'
    found.push(note(what, 'Unset it, unless this machine is for development.', 'LEADPUSH_ALLOW_INSECURE_HOOKS'))
  }
  return found.map((each) => ({ ...each, where: 'settings' }))
}

const forOthers = 0o004

/** Finds whether a file with secrets is empty or open to other users. If it cannot be read, the setting is wrong instead. */
async function checkFile(path: string, what: string): Promise<Found[]> {
  const found = await stat(path).catch((error) => {
    if (['ENOENT', 'ENOTDIR', 'EACCES', 'ENAMETOOLONG'].includes(codeOf(error) ?? '')) return undefined
    throw error
  })
  // a pipe has no size
  if (!found?.isFile()) return []
  return [
    ...(found.size === 0 ? [note(`${path} (${what}) is empty: it counts as not set`, 'Write the value into it.')] : []),
    ...(process.platform !== 'win32' && (found.mode & forOthers) !== 0
      ? [note(`Every user of this machine may read ${path} (${what})`, `Run \`chmod o-r ${path}\`.`)]
      : []),
  ]
}

async function checkSecrets({ inspection, source }: CheckContext): Promise<Found[]> {
  const files = inspection.files.filter(({ isSecret }) => isSecret)
  const found = await Promise.all([
    checkFile(join(source.cwd, '.env'), 'settings'),
    ...files.map(({ name, path }) => checkFile(path, `${name}_FILE`)),
  ])
  return found.flat()
}

export const settingsChecks: readonly Check[] = [
  { code: 'settings', title: 'settings', run: checkSettings },
  { code: 'secrets', title: 'secrets', run: checkSecrets },
]
