/** `leadpush openapi`. */
import { describe } from '../describe.ts'

export const openapi = describe({
  name: 'openapi',
  about: 'Print the OpenAPI 3.1 document of the endpoints, the delivery and the triggers.',
  help: '\nExamples:\n  leadpush openapi > openapi.json',
  settings: ['automation'],
  work: async () => (await import('../openapi.ts')).openapi,
})
