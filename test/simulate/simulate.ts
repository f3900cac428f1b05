/**
 * `npm run simulate -- --runs N --seed S`: whole pushes in virtual time, on the ledger in memory, by seeds from S on. Each world has a theme,
 * from which its faults are drawn; `--theme NAME` plays that one alone. Of the first run that breaks a promise it prints the seed, the theme,
 * the smallest scenario that still breaks one, and what happened in it; with `--brief` one line for each run that does. Exit code: 1 where one
 * broke.
 */
import { parseArgs } from 'node:util'
import { themes } from './scenario.ts'
import { describe, simulate } from './search.ts'

const options = {
  runs: { type: 'string', default: '5000' },
  seed: { type: 'string', default: '1' },
  theme: { type: 'string' },
  brief: { type: 'boolean' },
} as const

async function main(): Promise<void> {
  const { brief, ...values } = parseArgs({ options }).values
  const [runs, seed] = [Number(values.runs), Number(values.seed)]
  const theme = themes.find((one) => one === values.theme)
  if (theme !== values.theme) throw new Error(`--theme is one of: ${themes.join(', ')}`)
  const startMs = performance.now()
  const rate = (done: number) => `${Math.round((done * 1_000) / (performance.now() - startMs))} runs a second`
  let toldMs = startMs
  const onBatch = (done: number) => {
    if (performance.now() - toldMs < 10_000) return
    console.error(`${done} runs, ${rate(done)}`)
    toldMs = performance.now()
  }
  const broken = new Map<string, number>()
  for await (const found of simulate(runs, seed, theme, onBatch)) {
    const { seed, theme = '' } = found.scenario
    broken.set(theme, (broken.get(theme) ?? 0) + 1)
    process.exitCode = 1
    if (!brief) return console.log(await describe(found))
    console.log(`${seed} ${theme}: ${found.broken[0]?.split('\n')[0]}`)
  }
  if (broken.size === 0) return console.log(`${runs} runs from seed ${seed}: no promise was broken (${rate(runs)}).`)
  console.log([...broken].map(([theme, count]) => `${theme}: ${count}`).join(', '))
}

await main()
