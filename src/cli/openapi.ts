/** `leadpush openapi`: the OpenAPI document, for whoever builds against it. */

import type { Command } from 'commander'
import { type Act, type ExitCode, settingsSource } from './command.ts'
import type { CommandIo } from './command-io.ts'

export function addOpenapi(program: Command, act: Act): void {
  program
    .command('openapi')
    .description('Print the OpenAPI 3.1 document of the endpoints, the delivery and the triggers.')
    .addHelpText('after', '\nExamples:\n  leadpush openapi > openapi.json')
    .action(act(printDocument))
}

async function printDocument(io: CommandIo): Promise<ExitCode> {
  const { readSettings } = await import('../base/config.ts')
  const { buildOpenapi } = await import('../server/openapi.ts')
  const document = buildOpenapi(readSettings(['automation', 'logFormat'], settingsSource(io)))
  await io.out.line(...JSON.stringify(document, null, 2).split('\n'))
  return 0
}
