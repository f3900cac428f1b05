// Loaded before a process with --import: when that ends, writes its peak of memory, in bytes, and its processor time, in
// seconds, to a file.
import { writeFileSync } from 'node:fs'

process.on('exit', () => {
  const { maxRSS, userCPUTime, systemCPUTime } = process.resourceUsage()
  const usage = { peakBytes: maxRSS * 1024, cpuSeconds: (userCPUTime + systemCPUTime) / 1e6 }
  writeFileSync(process.env.USAGE_FILE, JSON.stringify(usage))
})
