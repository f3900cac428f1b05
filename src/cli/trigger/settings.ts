/** The settings that sending triggers uses: those of `trigger`, and of imports that send them. */
import type { ReadSettings } from '../describe.ts'

export const triggerSettings = [
  'leaseMs',
  'maxLeadAgeMs',
  'sameHouse',
  'allowInsecureHooks',
  'hookHosts',
  'keepAnswers',
  'secretKey',
] as const

export type TriggerSetting = (typeof triggerSettings)[number]
export type TriggerSettings = ReadSettings<TriggerSetting>
