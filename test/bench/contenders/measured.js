// How the contenders work and are measured: from the first delivery to the last, without the start of the process.
export const concurrency = 16

export function startClock() {
  const startedMs = performance.now()
  const cpu = process.cpuUsage()
  /** Tells what `deliveries` took. */
  return (deliveries) => {
    const { user, system } = process.cpuUsage(cpu)
    const seconds = (performance.now() - startedMs) / 1_000
    console.log(JSON.stringify({ deliveries, seconds, cpuSeconds: (user + system) / 1e6 }))
  }
}

/** Runs `work` 16 times at once; each takes numbers below `count` from `next` until that returns undefined. */
export async function measured(count, work) {
  let taken = 0
  const stop = startClock()
  await Promise.all(Array.from({ length: concurrency }, () => work(() => (taken < count ? taken++ : undefined))))
  stop(count)
}
