/** `leadpush report`. */
import { describe, jsonObject, option } from '../describe.ts'

export const report = describe({
  name: 'report',
  about: 'Write one HTML page: the weeks, deliveries that did not arrive and why, hooks, the listings.',
  options: [
    option('--out <file>', 'write the page to this file, replacing it; - is standard output').makeOptionMandatory(),
    jsonObject(),
  ],
  help: `
The page is one file that loads nothing, and can be sent by mail. It has the
e-mail addresses of users in trouble, but no key and no contact of a listing.
Only its owner may read the file.

Examples:
  leadpush report --out report.html
  leadpush report --out - | ssh web.example.com 'cat > report.html'

--json prints {"type":"report","file","bytes","period","seconds","findings"}.`,
  settings: ['timeZone', 'maxLeadAgeMs', 'feedMaxAgeMs', 'keepAnswers'],
  database: 'reads long',
  work: async () => (await import('../report.ts')).report,
})
