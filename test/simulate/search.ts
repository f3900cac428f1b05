/** Carries out run after run until one breaks a promise, and shows of that one what happened. */
import { carryOut } from './carry-out.ts'
import { findBroken } from './promises.ts'
import { makeScenario, type Scenario } from './scenario.ts'
import { shrink } from './shrink.ts'

/** Between two batches Node.js comes to what it has to do itself. */
const runsPerBatch = 20

export interface Found {
  runs: number
  seed: number
  broken: readonly string[]
  scenario: Scenario
}

const findBrokenIn = (scenario: Scenario) => findBroken(carryOut(scenario))

/** In a callback of its own: promises are settled within it, which Node.js does not do inside one. */
export const outside = <T>(work: () => T): Promise<T> =>
  new Promise((resolve, reject) => {
    setImmediate(() => {
      try {
        resolve(work())
      } catch (error) {
        reject(error)
      }
    })
  })

/** The first of `runs` seeds from `seed` on whose run breaks a promise; undefined: none does. */
export async function simulate(
  runs: number,
  seed: number,
  onBatch: (done: number) => boolean = () => true,
): Promise<Found | undefined> {
  for (let done = 0; done < runs; done += runsPerBatch) {
    const found = await outside(() => {
      for (let at = done; at < Math.min(runs, done + runsPerBatch); at++) {
        const scenario = makeScenario(seed + at)
        const broken = findBrokenIn(scenario)
        if (broken.length > 0) return { runs: at + 1, seed: seed + at, broken, scenario }
      }
      return undefined
    })
    if (found) return found
    if (!onBatch(Math.min(runs, done + runsPerBatch))) return undefined
  }
  return undefined
}

/** For people: what broke, in the smallest scenario that still shows it, and what happened there. */
export async function describe({ seed, broken, scenario }: Found): Promise<string> {
  const smallest = await outside(() => shrink(scenario, (one) => findBrokenIn(one).length > 0))
  const outcome = await outside(() => carryOut(smallest, true))
  return [
    ...[`Seed ${seed}:`, ...broken.map((text) => `  ${text}`), 'The smallest scenario:', JSON.stringify(smallest)],
    ...[...outcome.trace, ...findBroken(outcome).map((text) => `BROKEN: ${text}`)],
  ].join('\n')
}
