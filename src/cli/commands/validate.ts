/** `leadpush validate`. */

import { usageError } from '../../base/errors.ts'
import { argument, describe, jsonLines, option } from '../describe.ts'
import { recordOptions } from './record-options.ts'

const reading = recordOptions.flatMap(({ long }) => long ?? [])

export const validate = describe({
  name: 'validate',
  about: 'Find what is wrong and what to do: on this machine, at the receiver, in all data; or in files.',
  arguments: [argument('[file...]', 'files to check instead: a delivery body, listings, users; - is standard input')],
  options: [...recordOptions, option('--quick', 'leave out the pass over the data'), jsonLines()],
  help: `
Without files it looks at Node.js, settings, database, receiver (a HEAD without
a key; nothing is sent), clock, disk, cron, and at every user, key, query, hook
and lead. It writes nothing, makes no database, and gives up on a check that
hangs. A note does not count as a problem. Files are judged as by their import.

Exit code: 1 if there is a problem, else 0.

Examples:
  leadpush validate                 after installing, or if something looks odd
  leadpush validate --quick         the machine alone
  leadpush validate listings.csv    would the import take each record?
  zcat users.json.gz | leadpush validate -
  leadpush validate mls.csv --map-file mls.map --where status=Active --null TBD
  leadpush preview --user user@example.com --body > body.json
  leadpush validate body.json`,
  rules: [
    ({ has, words }) => {
      if (words > 0 || !reading.some(has)) return
      const hint = 'Name the files; without any, `leadpush validate` checks this machine and its data.'
      throw usageError('Options for reading records go with files.', hint)
    },
    ({ has, words }) => {
      if (words > 0 && has('--quick'))
        throw usageError('--quick does not go with files: it leaves out the pass over the data.')
    },
  ],
  work: async () => (await import('../validate.ts')).validate,
})
