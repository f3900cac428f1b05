// Runs the program: what the package brings, or in a checkout what is built of the sources as they are now.
import { existsSync } from 'node:fs'
import module from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { buildCheckout, findCheckoutBuild, root } from './build.js'

const readOnlyCodes = ['EACCES', 'EPERM', 'EROFS', 'ENOSPC']

/** The path of the program; undefined in a checkout that may not be written to. Ends the process where it cannot be built. */
async function findProgram() {
  if (!existsSync(join(root, 'src'))) return join(root, 'dist', 'main.js')
  const built = findCheckoutBuild()
  if (built) return built
  try {
    return await buildCheckout()
  } catch (error) {
    if (readOnlyCodes.includes(error.code)) return undefined
    if (error.code === 'ERR_MODULE_NOT_FOUND') console.error('leadpush is not installed yet: run `npm ci` first.')
    else if (!error.errors) throw error // esbuild has shown its own
    process.exit(2)
  }
}

export async function start() {
  module.enableCompileCache?.()
  const main = await findProgram()
  if (main) return import(pathToFileURL(main).href)
  // a checkout that may not be written to: slower, but it runs
  const { tsImport } = await import('tsx/esm/api')
  return tsImport('../src/main.ts', import.meta.url)
}
