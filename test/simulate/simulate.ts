/**
 * `npm run simulate -- --runs N --seed S`: whole pushes in virtual time, on the ledger in memory, by seeds from S on. Of the first run that
 * breaks a promise it prints the seed, the smallest scenario that still breaks one, and what happened in it; with `--brief` the seed and the
 * promise. Exit code: 1 where one broke.
 */
import { parseArgs } from 'node:util'
import { describe, simulate } from './search.ts'

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: { runs: { type: 'string' }, seed: { type: 'string' }, brief: { type: 'boolean' } },
  })
  const [runs, seed] = [Number(values.runs ?? 5_000), Number(values.seed ?? 1)]
  const startMs = performance.now()
  const rate = (done: number) => `${Math.round((done * 1_000) / (performance.now() - startMs))} runs a second`
  let toldMs = startMs
  const found = await simulate(runs, seed, (done) => {
    if (performance.now() - toldMs > 10_000) console.error(`${done} runs, ${rate(done)}`)
    if (performance.now() - toldMs > 10_000) toldMs = performance.now()
    return true
  })
  if (found === undefined) return console.log(`${runs} runs from seed ${seed}: no promise was broken (${rate(runs)}).`)
  console.log(values.brief ? `${found.runs} ${found.seed} ${found.broken[0]?.split('\n')[0]}` : await describe(found))
  process.exitCode = 1
}

await main()
