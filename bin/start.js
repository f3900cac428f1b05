// Runs the program: the built one of a package, or in a checkout one built from the current sources.
import { existsSync } from 'node:fs'
import module from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

const readOnlyCodes = ['EACCES', 'EPERM', 'EROFS', 'ENOSPC']

/**
 * The program of a checkout, built where that is needed; undefined in a read-only checkout. Ends the process where building
 * fails.
 */
async function findCheckoutProgram() {
  const { buildCheckout, findCheckoutBuild } = await import('./build.js')
  const built = findCheckoutBuild()
  if (built) return built
  try {
    return await buildCheckout()
  } catch (error) {
    if (readOnlyCodes.includes(error.code)) return undefined
    if (error.code === 'ERR_MODULE_NOT_FOUND') console.error('leadpush is not installed yet: run `npm ci` first.')
    else if (!error.errors) throw error // esbuild has printed its errors
    process.exit(2)
  }
}

export async function start() {
  const root = dirname(dirname(fileURLToPath(import.meta.url)))
  const main = existsSync(join(root, 'src')) ? await findCheckoutProgram() : join(root, 'dist', 'main.js')
  if (main) {
    // beside the program, where only its owner can write; by default Node.js uses a folder that all users share
    module.enableCompileCache?.(join(dirname(main), 'compiled'))
    return import(pathToFileURL(main).href)
  }
  // a read-only checkout: slower, but it runs
  const { tsImport } = await import('tsx/esm/api')
  return tsImport('../src/main.ts', import.meta.url)
}
