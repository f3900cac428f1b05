/** Checks the settings: whether each value is allowed, and whether other users can read files with secrets. */
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { codeOf } from '../../base/errors.ts'
import { findSettingProblems } from '../validate/settings.ts'
import { type Check, type CheckContext, failure, judge, type Trouble, type Verdict, warning } from './check.ts'

async function checkSettings({ inspection }: CheckContext): Promise<Verdict> {
  const troubles: Trouble[] = inspection.problems.map((problem) =>
    failure(`${problem}.`, 'Correct it in the environment, in .env, or in the file that its NAME_FILE names.'),
  )
  const { receiverUrl, allowInsecureHooks, timeZone = '' } = inspection.settings
  const given = { receiverUrl: inspection.wrong.has('receiverUrl') ? '' : receiverUrl, allowInsecureHooks, timeZone }
  for (const { type, path, message, hint = '' } of findSettingProblems(given, undefined))
    troubles.push((type === 'problem' ? failure : warning)(`${path} ${message}.`, hint))
  return judge('every name and every value is allowed', troubles)
}

const forOthers = 0o004

/** Finds whether a file with secrets is empty or open to other users. A file that cannot be read is a wrong setting instead. */
async function checkFile(path: string, what: string): Promise<Trouble[]> {
  const found = await stat(path).catch((error) => {
    if (['ENOENT', 'ENOTDIR', 'EACCES', 'ENAMETOOLONG'].includes(codeOf(error) ?? '')) return undefined
    throw error
  })
  if (found === undefined) return []
  const troubles: Trouble[] = []
  // a pipe has no size
  if (found.isFile() && found.size === 0) {
    troubles.push(warning(`${path} (${what}) is empty: it counts as not set.`, 'Write the value into it.'))
  }
  if (process.platform !== 'win32' && found.isFile() && (found.mode & forOthers) !== 0) {
    const message = `Every user of this machine may read ${path} (${what}).`
    troubles.push(warning(message, `Run \`chmod o-r ${path}\`.`))
  }
  return troubles
}

async function checkSecrets({ inspection, source }: CheckContext): Promise<Verdict> {
  const dotEnv = join(source.cwd, '.env')
  const files = inspection.files.filter(({ isSecret }) => isSecret)
  const troubles = await Promise.all([
    checkFile(dotEnv, 'settings'),
    ...files.map(({ name, path }) => checkFile(path, `${name}_FILE`)),
  ])
  return judge('no file with settings is open to other users', troubles.flat())
}

export const settingsChecks: readonly Check[] = [
  { name: 'settings', title: 'Settings', run: checkSettings },
  { name: 'secrets', title: 'Secrets', run: checkSecrets },
]
