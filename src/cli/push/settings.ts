/** The settings that a push uses: those of `push`, of commands that push, and of `serve`, whose processes do. */
import type { ReadSettings } from '../describe.ts'

export const pushSettings = [
  'databaseUrl',
  'home',
  'databaseAwayMs',
  'receiverUrl',
  'clientCert',
  'clientKey',
  'dataSource',
  'concurrency',
  'ratePerSecond',
  'timeoutMs',
  'retryDelayMs',
  'outageMs',
  'compress',
  'keepAnswers',
  'leaseMs',
  'guard',
  'maxLeadAgeMs',
  'sameHouse',
  'timeZone',
  'secretKey',
  'logFormat',
  'pingUrl',
  'pingBody',
  'proxies',
] as const

export const pushNeeds = {
  receiverUrl:
    'a push needs to know where to send: the full URL of the receiver, such as https://receiver.example/leads',
}

export type PushSetting = (typeof pushSettings)[number]
/** What a push cannot do without. */
export type PushNeed = keyof typeof pushNeeds
export type PushSettings = ReadSettings<PushSetting, PushNeed>
