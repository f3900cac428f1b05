/** A push's reporter for tests that start the push in their own process. */
import type { PushLine } from '../../src/index.ts'
import type { PushReporter } from '../../src/push/reporter.ts'

/** Collects the lines and, where `notes` is given, the notes of a push; drops everything else. */
export function collectingReporter(lines: PushLine[], notes: string[] = []): PushReporter {
  return {
    line: (line) => void lines.push(line),
    note: (text) => void notes.push(text),
    waits: () => {},
    pace: () => {},
    total: () => {},
    attempt: () => {},
  }
}
