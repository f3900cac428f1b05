/**
 * Whom a rejected record may be about, by its raw bytes: the URLs or e-mail addresses in them. A complete import takes nobody away who is
 * named there, and nobody at all where a record names nobody (contract 4.18).
 */
import { tooLarge } from './record.ts'
import type { StagedReject } from './staged-rejects.ts'

/** Which kind of text tells records apart. */
export type KeyKind = 'url' | 'email'

/** What may be a URL or an e-mail address. Where it is not `whole`, the text around it may belong to it. */
interface Candidate {
  key: string
  whole: boolean
}

const urlCharsMax = 2_048
/** On each side of the `@`. */
const emailCharsMax = 256
/** The candidates of a record have so many characters in all, or so many times those of the record: with more it names nobody for sure. */
const [charsMin, charsMax, timesMax] = [64 * 1024, 4 * 1024 * 1024, 16]

/** Where a text may end that stands among others. */
const sign = /[^\p{L}\p{N}/]/gu
/** What stands before an e-mail address that is whole, and behind it or a URL. */
const [before, behind] = [/["',;|\\<>([{:=]/, /["',;|\\<>)\]}]/]

const escapes = /\\(?:u([0-9a-f]{4})|(["\\/]))/gi

/** A raw record as it came, and with the characters that JSON spells out. */
function findTexts(raw: Buffer): string[] {
  const text = raw.toString()
  if (!text.includes('\\')) return [text]
  const read = text.replace(escapes, (_, code: string | undefined, other: string) =>
    code === undefined ? other : String.fromCharCode(Number.parseInt(code, 16)),
  )
  return [text, read.toWellFormed()]
}

/** The beginnings of a run without white space that end before a sign, and the run. */
const cutBefore = (run: string): Candidate[] => [
  ...[...run.matchAll(sign)].map(({ 0: at, index }) => ({ key: run.slice(0, index), whole: behind.test(at) })),
  { key: run, whole: true },
]

/** The ends of a run that begin behind a sign, and the run. */
const cutBehind = (run: string): Candidate[] => [
  ...[...run.matchAll(sign)].map(({ 0: at, index }) => ({ key: run.slice(index + 1), whole: before.test(at) })),
  { key: run, whole: true },
]

function* findUrls(text: string): Generator<Candidate> {
  for (const { 0: run } of text.matchAll(/https?:\/\/(?:(?!https?:\/\/)[^\s\p{Cc}])+/giu))
    yield* cutBefore(run.slice(0, urlCharsMax))
}

function* findEmails(text: string): Generator<Candidate> {
  for (let at = text.indexOf('@'); at >= 0; at = text.indexOf('@', at + 1)) {
    const local = /[^\s\p{Cc}@]*$/u.exec(text.slice(Math.max(0, at - emailCharsMax), at))?.[0] ?? ''
    const domain = /^[^\s\p{Cc}@]*/u.exec(text.slice(at + 1, at + 1 + emailCharsMax))?.[0] ?? ''
    for (const begins of cutBehind(local))
      for (const ends of cutBefore(domain))
        yield { key: `${begins.key}@${ends.key}`.toLowerCase(), whole: begins.whole && ends.whole }
  }
}

/** The candidates in `raw`, each with whether it stands there as a whole; undefined where there are too many. */
export function findKeys(raw: Buffer, kind: KeyKind): ReadonlyMap<string, boolean> | undefined {
  const keys = new Map<string, boolean>()
  let left = Math.min(charsMax, Math.max(charsMin, timesMax * raw.length))
  for (const text of findTexts(raw)) {
    for (const { key, whole } of kind === 'url' ? findUrls(text) : findEmails(text)) {
      left -= key.length
      if (left < 0) return undefined
      // bytes that were no UTF-8 are no part of it
      if (!key.includes('\ufffd')) keys.set(key, whole || keys.get(key) === true)
    }
  }
  return keys
}

/** Counts those of `rejects` that name nobody. `note` notes all candidates, and returns the indexes of those keys that somebody has. */
export async function countUnnamed(
  rejects: readonly StagedReject[],
  kind: KeyKind,
  note: (keys: readonly string[]) => Promise<readonly number[]>,
): Promise<number> {
  const named: { key: string; whole: boolean; at: number }[] = []
  const uncertain = new Set<number>()
  for (const [at, { raw, message }] of rejects.entries()) {
    const keys = findKeys(raw, kind)
    // what was cut off may name others
    if (!keys || message.startsWith(tooLarge)) uncertain.add(at)
    for (const [key, whole] of keys ?? []) named.push({ key, whole, at })
  }
  const known = new Set<number>()
  for (const place of await note(named.map(({ key }) => key))) {
    const found = named[place]
    if (found?.whole) known.add(found.at)
  }
  return rejects.filter(({ isNamed }, at) => uncertain.has(at) || !(isNamed || known.has(at))).length
}
