/** The columns of real listings, where `TEST_LISTINGS_CSV` names a file of them: every number and postal code in them is read. */
import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { test } from 'node:test'
import { leadMaps } from '../../src/leads/field-map.ts'
import type { LeadField } from '../../src/leads/lead.ts'
import { FieldPicker } from '../../src/leads/pick-fields.ts'
import { findRecordFile, readRecords } from '../../src/records/read-records.ts'

const file = process.env.TEST_LISTINGS_CSV ?? ''
const columns = {
  href: 'property_url', postalCode: 'zip_code', price: 'list_price', sqft: 'sqft', bedrooms: 'beds', bathrooms: 'full_baths',
  yearBuilt: 'year_built', description: 'text', city: 'city', state: 'state', address: 'full_street_line', secondAddress: 'unit',
} // biome-ignore format: a list

/** As people and spreadsheets might have written a number that a machine wrote. */
const rewrites: Partial<Record<LeadField, (plain: string) => string[]>> = {
  price: (plain) => [`$${Number(plain).toLocaleString('en-US')}`, `${Number(plain) / 1000}K`, `${plain}.0`, `USD ${plain}`],
  sqft: (plain) => [`${Number(plain).toLocaleString('en-US')} sqft`, `${plain} sq. ft.`, `${plain}.0`],
  bedrooms: (plain) => [`${plain} bd`, `${plain}BR`],
  bathrooms: (plain) => [`${plain} ba`, `${plain} baths`, `${plain} 1/2`],
  yearBuilt: (plain) => [`Built in ${plain}`, `${plain}.0`],
} // biome-ignore format: a list

test('real listings are read whole: no number is lost or changed, plain or as people write it', {
  skip: !existsSync(file),
}, async () => {
  const map = leadMaps.parse(Object.entries(columns).map(([field, column]) => `${field}=${column}`))
  const picker = new FieldPicker(map, { strict: true })
  const json = new FieldPicker(map, { strict: true })
  const cellsRead: Record<string, number> = {}
  let rewritten = 0
  for await (const { records, header } of readRecords(findRecordFile(file, ['csv']))) {
    if (header) picker.setHeader(header)
    for (const record of records) {
      const cells = Object.fromEntries((header?.names ?? []).map((name, at) => [name, record.cells?.[at] ?? '']))
      const picked = picker.pick(record)
      assert.ok('patch' in picked, `${record.line}: ${JSON.stringify(picked)}`)
      assert.deepEqual(json.pick({ line: 1, raw: record.raw, value: cells }), picked)
      for (const [field, column] of Object.entries(columns) as [LeadField, string][]) {
        const cell = cells[column] ?? ''
        const known: unknown = picked.patch[field]
        if (cell === '' || (field === 'yearBuilt' && Number(cell) === 0)) assert.equal(known, undefined)
        else assert.equal(String(known), rewrites[field] ? String(Number(cell)) : cell, `${record.line} ${field}`)
        if (known === undefined) continue
        cellsRead[field] = (cellsRead[field] ?? 0) + 1
        for (const text of rewrites[field]?.(cell) ?? []) {
          const again = json.pick({ line: 1, raw: record.raw, value: { ...cells, [column]: text } })
          const half = text.endsWith(' 1/2') ? 0.5 : 0
          // doubtful: three decimals of thousands, or so many thousands that the K may be one too much
          if (/^([1-9]\d{0,2}\.\d{3}|\d{5,}(\.\d+)?)K$/.test(text)) assert.ok('path' in again, text)
          else assert.equal('patch' in again && again.patch[field], Number(cell) + half, text)
          rewritten++
        }
      }
    }
  }
  assert.ok(
    Object.values(cellsRead).every((count) => count > 500) && rewritten > 5_000,
    JSON.stringify({ cellsRead, rewritten }),
  )
})
