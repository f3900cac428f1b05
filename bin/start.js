// Runs the program: what the package brings, or in a checkout what is built of the sources as they are now.
import { existsSync } from 'node:fs'
import module from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

const readOnlyCodes = ['EACCES', 'EPERM', 'EROFS', 'ENOSPC']

/** The program of a checkout; undefined in one that may not be written to. Ends the process where it cannot be built. */
async function findCheckoutProgram() {
  const { buildCheckout, findCheckoutBuild } = await import('./build.js')
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
  const root = dirname(dirname(fileURLToPath(import.meta.url)))
  const main = existsSync(join(root, 'src')) ? await findCheckoutProgram() : join(root, 'dist', 'main.js')
  if (main) {
    // beside the program, where only who may change it can write; by itself Node.js keeps it in a folder that all share
    module.enableCompileCache?.(join(dirname(main), 'compiled'))
    return import(pathToFileURL(main).href)
  }
  // a checkout that may not be written to: slower, but it runs
  const { tsImport } = await import('tsx/esm/api')
  return tsImport('../src/main.ts', import.meta.url)
}
