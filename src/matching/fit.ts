/** Compares one lead with searches, part by part: which words and whether the place match, and which words are missing. */
import { sql } from 'kysely'
import type { Database } from '../db/open.ts'
import { liesInPlaces } from './lies-in.ts'
import { hasWords } from './match.ts'

export interface FitWord {
  /** As the search has it. */
  word: string
  /** What its English stemming leaves of it. */
  stem: string
  found: boolean
}

/** How one lead fits one search. */
export interface Fit {
  kind: 'place' | 'words' | 'both'
  /** How many postal codes the search stands for; null for words alone. */
  places: number | null
  /** Whether the lead lies in one of them. */
  inPlace: boolean | null
  words: FitWord[]
  /** Whether the search matches: the age of the lead does not matter, nor how many newer ones match. */
  matches: boolean
}

/** Maps the id of each search to its fit. */
export async function findFits(db: Database, leadId: number, searchIds: readonly number[]): Promise<Map<number, Fit>> {
  const inPlace = liesInPlaces(sql`l`, sql`s.places`)
  const { rows } = await sql<Fit & { id: number }>`
    select s.id, s.kind, cardinality(s.places) as places, ${inPlace} as "inPlace",
      coalesce((
        select json_agg(json_build_object('word', w.word, 'found', l.search @@ plainto_tsquery('english'::regconfig, w.word),
          'stem', array_to_string(tsvector_to_array(to_tsvector('english'::regconfig, w.word)), ' ')) order by w.n)
        from unnest(string_to_array(s.words, ' ')) with ordinality as w (word, n)
      ), '[]') as words,
      (s.places is null or ${inPlace}) and (s.words is null or ${hasWords(sql`s.words`)}) as matches
    from searches s cross join leads l where l.id = ${leadId} and s.id = any (${searchIds})
  `.execute(db)
  return new Map(rows.map(({ id, ...fit }) => [id, fit]))
}
