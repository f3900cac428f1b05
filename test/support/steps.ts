/** The commands of a piece of advice. */
import type { Step } from '../../src/inspect/status/advise-on.ts'

export const commandsOf = (steps: readonly Step[]): string[] =>
  steps
    .flatMap((step) => ('run' in step ? [step.run, ...(step.or ? [step.or.run] : [])] : []))
    .map((run) => run.join(' '))
