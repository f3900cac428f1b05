// Loaded before a process with --import: when that ends, writes its peak of memory, in bytes, and its processor time, in
// seconds, to a file.
import { existsSync, readFileSync, writeFileSync } from 'node:fs'

const status = '/proc/self/status'
// of this program alone: the other figure begins with what the process that started it had
const readPeak = (fallback) =>
  existsSync(status) ? Number(/VmHWM:\s+(\d+)/.exec(readFileSync(status, 'utf8'))?.[1] ?? fallback) : fallback

process.on('exit', () => {
  const { maxRSS, userCPUTime, systemCPUTime } = process.resourceUsage()
  const usage = { peakBytes: readPeak(maxRSS) * 1024, cpuSeconds: (userCPUTime + systemCPUTime) / 1e6 }
  writeFileSync(process.env.USAGE_FILE, JSON.stringify(usage))
})
