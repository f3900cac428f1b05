/** Carries out run after run until one breaks a promise, and shows of that one what happened. */
import { carryOut } from './carry-out.ts'
import { findBroken } from './promises.ts'
import { makeScenario, type Scenario, type Theme } from './scenario.ts'
import { shrink } from './shrink.ts'

/** Between two batches Node.js comes to what it has to do itself. */
const runsPerBatch = 20

export interface Found {
  broken: readonly string[]
  scenario: Scenario
}

/** The promise, whatever the numbers and keys. */
const kindOf = (text: string) => text.replace(/\S*\d\S*/g, 'N')

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

/** Those of `runs` seeds from `seed` on whose runs break a promise. */
export async function* simulate(
  runs: number,
  seed: number,
  theme?: Theme,
  onBatch: (done: number) => void = () => {},
): AsyncGenerator<Found> {
  for (let done = 0; done < runs; done += runsPerBatch) {
    const batch = Array.from({ length: Math.min(runsPerBatch, runs - done) }, (_, at) => seed + done + at)
    yield* await outside(() => batch.flatMap((one) => findIn(makeScenario(one, theme))))
    onBatch(done + batch.length)
  }
}

function findIn(scenario: Scenario): Found[] {
  const broken = findBrokenIn(scenario)
  return broken.length === 0 ? [] : [{ broken, scenario }]
}

/** For people: what broke, in the smallest scenario that still shows it, and what happened there. */
export async function describe({ broken, scenario }: Found): Promise<string> {
  const kind = kindOf(broken[0] ?? '')
  const breaks = (one: Scenario) => findBrokenIn(one).some((text) => kindOf(text) === kind)
  const smallest = await outside(() => shrink(scenario, breaks))
  const outcome = await outside(() => carryOut(smallest, true))
  const { seed, theme } = scenario
  return [
    `Seed ${seed}, theme ${theme}:`,
    ...[...broken.map((text) => `  ${text}`), 'The smallest scenario:', JSON.stringify(smallest)],
    ...[...outcome.trace, ...findBroken(outcome).map((text) => `BROKEN: ${text}`)],
  ].join('\n')
}
