// Loaded before the program with --import: writes the peak of its memory, in bytes, to a file when it ends.
import { writeFileSync } from 'node:fs'

process.on('exit', () => writeFileSync(process.env.PEAK_MEMORY_FILE, String(process.resourceUsage().maxRSS * 1024)))
