/** `leadpush migrate`. */
import { describe, jsonObject } from '../describe.ts'

export const migrate = describe({
  name: 'migrate',
  about: "Bring the database's schema up to date.",
  options: [jsonObject()],
  help: `
With LEADPUSH_SECRET_KEY it also encrypts the receiver keys and signing secrets
that are stored in plain form. If it is killed, run it again.

Examples:
  DATABASE_URL=postgresql://leadpush@db.internal/leadpush leadpush migrate`,
  settings: ['secretKey'],
  database: 'works',
  work: async () => (await import('../migrate.ts')).migrate,
})
