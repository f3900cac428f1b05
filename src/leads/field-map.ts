/** `--map` and `--map-file` for listings. */
import { type FieldMap, FieldMaps } from '../records/field-map.ts'
import { type LeadField, leadFields } from './lead.ts'

export type LeadMap = FieldMap<LeadField>

export const leadMaps = new FieldMaps<LeadField>(
  'a lead',
  leadFields.map(({ name }) => name),
)
