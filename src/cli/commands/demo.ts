/** `leadpush demo`. */
import { describe, option } from '../describe.ts'

export const demo = describe({
  name: 'demo',
  about: 'See it work: sample listings and users, a local receiver, a push. Leaves nothing behind.',
  options: [option('--json', 'print the push as JSON lines')],
  help: '\nExamples:\n  leadpush demo',
  work: async () => (await import('../demo.ts')).demo,
})
