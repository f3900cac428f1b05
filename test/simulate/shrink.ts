/** Makes a scenario that breaks a promise as small as it can while it still breaks one. */
import type { Event, Scenario } from './scenario.ts'

/** Simpler scenarios, those that are much simpler first. */
function* findSimpler(scenario: Scenario): Generator<Scenario> {
  const { users, listings, pushes, events, receiver } = scenario
  for (const count of [1, 2, users.length >> 1, users.length - 1])
    if (count > 0 && count < users.length) yield { ...scenario, users: users.slice(0, count) }
  for (const [at] of events.entries()) yield { ...scenario, events: events.toSpliced(at, 1) }
  for (const [at] of receiver.entries())
    if (receiver.length > 1)
      yield { ...scenario, receiver: receiver.toSpliced(at, 1).map((it, n) => (n === 0 ? { ...it, atMs: 0 } : it)) }
  for (const [at] of pushes.entries()) if (pushes.length > 1) yield withoutPush(scenario, at)
  for (const [at] of listings.entries()) yield { ...scenario, listings: listings.toSpliced(at, 1) }
  for (const [at, user] of users.entries())
    if (user.places.length > 1 || user.leadsBefore !== undefined)
      yield { ...scenario, users: users.with(at, { places: user.places.slice(0, 1), subscribed: user.subscribed }) }
  for (const [at, event] of events.entries())
    if (event.atMs > 1) yield { ...scenario, events: events.with(at, { ...event, atMs: event.atMs >> 1 }) }
}

function withoutPush(scenario: Scenario, at: number): Scenario {
  const isOf = ({ aimed, ...event }: Event) => aimed?.push === at || ('push' in event && event.push === at)
  const moved = <Of extends { push: number }>(of: Of): Of => (of.push > at ? { ...of, push: of.push - 1 } : of)
  const events = scenario.events
    .filter((event) => !isOf(event))
    .map((event): Event => ('push' in event ? moved(event) : event))
    .map((event): Event => (event.aimed ? { ...event, aimed: moved(event.aimed) } : event))
  return { ...scenario, pushes: scenario.pushes.toSpliced(at, 1), events }
}

/** `breaks`: whether a scenario breaks a promise. `triesMax` bounds the work. */
export function shrink(scenario: Scenario, breaks: (scenario: Scenario) => boolean, triesMax = 400): Scenario {
  let [smallest, tries] = [scenario, 0]
  for (let found = true; found && tries < triesMax; ) {
    found = false
    for (const simpler of findSimpler(smallest)) {
      if (++tries > triesMax) break
      // another order of chance may be needed: the latencies of a smaller scenario are others
      const other = [0, 1, 2].map((more) => ({ ...simpler, seed: simpler.seed + more })).find(breaks)
      if (other === undefined) continue
      smallest = other
      found = true
      break
    }
  }
  return smallest
}
