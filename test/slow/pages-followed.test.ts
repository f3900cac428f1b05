/** README and the page that goes on from it as a reader uses them: their commands run as they stand. */
import { test } from 'node:test'
import { runPages } from '../support/page-run.ts'

test('README and the start page can be followed as they are written: each command prints what the page shows', () =>
  runPages(['README.md', 'docs/start.md']))
