/** "Did you mean": the known names that are spelt most like an unknown one. */
import { distance } from 'fastest-levenshtein'

const bare = (name: string) => name.toLowerCase().replace(/[^\p{L}\p{N}]/gu, '')

/** How far two names are from each other, from 0 to 1; case and punctuation do not count. */
export function spellingDistance(one: string, other: string): number {
  const [a, b] = [bare(one), bare(other)]
  const longest = Math.max(a.length, b.length)
  return longest === 0 ? 1 : distance(a, b) / longest
}

/** Up to three of `known`, the nearest first; none if all are spelt quite differently. */
export function nearestNames(name: string, known: Iterable<string>): string[] {
  const found = [...new Set(known)].map((other) => ({ other, far: spellingDistance(name, other) }))
  const near = found.filter(({ far }) => far <= 0.5).sort((a, b) => a.far - b.far)
  return near.slice(0, 3).map(({ other }) => other)
}

/** `; did you mean price or sqft?`, or nothing. */
export function didYouMean(name: string, known: Iterable<string>): string {
  const names = nearestNames(name, known)
  return names.length === 0 ? '' : `; did you mean ${names.join(' or ')}?`
}
