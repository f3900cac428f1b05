/** The places of the committed postal codes, for tests that need no database. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { packageRoot } from '../../src/base/package-root.ts'
import { buildPlaces } from '../../src/places/places.ts'

export const places = buildPlaces(readFileSync(join(packageRoot, 'sql/000002_postal_codes.tsv'), 'utf8'))
