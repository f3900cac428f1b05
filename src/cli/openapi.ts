/** Prints the OpenAPI document, for developers of receivers and platforms. */
import { buildOpenapi } from '../server/openapi.ts'
import type { At, ExitCode } from './describe.ts'

export async function openapi({ io, readSettings }: At<'automation'>): Promise<ExitCode> {
  const document = buildOpenapi(readSettings())
  await io.out.line(...JSON.stringify(document, null, 2).split('\n'))
  return 0
}
