/** What a check of the pages finds, as `npm run lint` prints it: the place, and what to do there. */
import type { Document } from '../../support/markdown.ts'

export interface Finding {
  file: string
  /** The line, from 1; undefined if it is about the whole file. */
  line?: number | undefined
  /** What to do. */
  text: string
}

/** A finding at the first line of a document that has `place`. */
export const foundAt = ({ file, lines }: Document, place: string, text: string): Finding => ({
  file,
  line: lines.findIndex((line) => line.includes(place)) + 1 || undefined,
  text,
})
