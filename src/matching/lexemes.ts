/**
 * From the words of listings to the lexemes by which they are found. PostgreSQL stems each word once, and the process remembers it:
 * listings share most of their words, and stemming is most of what `to_tsvector` costs.
 */
import type { Connection } from '../db/transaction.ts'

/** Bounds the remembered words, each some 300 bytes. */
const knownMax = 20_000

/** A lexeme, and the last listing for which it was taken: so one that has it twice takes it once, without a set of its own. */
interface Lexeme {
  text: string
  takenFor: number
}

interface Word {
  /** As `to_tsvector('english', word)` has them: none for a stop word, nearly always one else. */
  lexemes: readonly Lexeme[]
  takenFor: number
}

/** The distinct words of a listing. */
export type Words = readonly Word[]

/** Remembers words and their lexemes, which it asks of `database`. */
export class Lexemes {
  private readonly database: Pick<Connection, 'query'>
  private readonly words = new Map<string, Word>()
  private readonly lexemes = new Map<string, Lexeme>()
  private listing = 0
  private unknown: string[] = []

  constructor(database: Pick<Connection, 'query'>) {
    this.database = database
  }

  /** The words of a text of `listingWords`; `learn` must follow before their lexemes are asked for. */
  wordsOf(text: string): Words {
    const listing = ++this.listing
    const distinct: Word[] = []
    for (const key of text.split(' ')) {
      let word = this.words.get(key)
      if (word === undefined) {
        word = { lexemes: [], takenFor: 0 }
        this.words.set(key, word)
        this.unknown.push(key)
      }
      if (word.takenFor === listing) continue
      word.takenFor = listing
      distinct.push(word)
    }
    return distinct
  }

  /** Finds the lexemes of the words that came since the last call. */
  async learn(): Promise<void> {
    if (this.unknown.length === 0) return
    const { rows } = await this.database.query<{ word: string; lexemes: string }>(
      `select word, array_to_string(tsvector_to_array(to_tsvector('english'::regconfig, word)), ' ') as lexemes
       from unnest($1::text[]) word`,
      [this.unknown],
    )
    this.unknown = []
    for (const { word, lexemes } of rows) {
      const known = this.words.get(word)
      if (known && lexemes !== '') known.lexemes = lexemes.split(' ').map((text) => this.lexemeOf(text))
    }
  }

  /** The distinct lexemes of a listing's words. */
  lexemesOf(words: Words): string[] {
    const listing = ++this.listing
    const distinct: string[] = []
    for (const { lexemes } of words) {
      for (const lexeme of lexemes) {
        if (lexeme.takenFor === listing) continue
        lexeme.takenFor = listing
        distinct.push(lexeme.text)
      }
    }
    return distinct
  }

  /** Forgets all, should they have become many: nothing of `wordsOf` may be in use. */
  trim(): void {
    if (this.words.size <= knownMax) return
    this.words.clear()
    this.lexemes.clear()
  }

  private lexemeOf(text: string): Lexeme {
    let lexeme = this.lexemes.get(text)
    if (lexeme === undefined) {
      lexeme = { text, takenFor: 0 }
      this.lexemes.set(text, lexeme)
    }
    return lexeme
  }
}
