/** As `test/unit/simulation.test.ts`, for further seeds. */
import { test } from 'node:test'
import { simulate } from '../support/simulated.ts'

test('whatever happens to pushes and around them, they keep their promises, further seeds', () => simulate(1_000, 501))
