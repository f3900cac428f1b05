/** A process that imports a file of listings: `import-process.ts URL FILE` prints each phase, and its peak memory. */
import { boundHeap } from '../../src/cli/heap.ts'
import { openDatabase } from '../../src/db/open.ts'
import { importLeads } from '../../src/leads/import.ts'

const [url = '', file = ''] = process.argv.slice(2)
await boundHeap()
const opened = await openDatabase({ databaseUrl: url, home: '' })
await importLeads(opened, [file], { onProgress: ({ phase }) => console.log(phase) })
await opened.close()
console.log(`peak ${process.resourceUsage().maxRSS}`)
