/** The fields of users, `--map` and `--map-file` for them, and how exports call them. */
import { receiverKeyCharsMax } from '../base/limits.ts'
import { type FieldMap, FieldMaps } from '../records/field-map.ts'
import type { Vocabulary } from '../records/suggest-map.ts'
import { parseRadius, parseYesOrNo } from './read-text.ts'

/** The columns of CSV; `queries` is a key of JSON alone. */
export const userColumns = ['email', 'receiverApiKey', 'subscribed', 'type', 'value', 'radius'] as const
export type UserColumn = (typeof userColumns)[number]
export type UserField = UserColumn | 'queries'
export type UserMap = FieldMap<UserField>

export const userMaps = new FieldMaps<UserField>('a user', [...userColumns, 'queries'])

const words = (text: string) => text.split(' ')
const isEmail = (text: string) => /^\S+@\S+\.\S+$/.test(text.trim())
const isKey = new RegExp(`^[!-~]{1,${receiverKeyCharsMax}}$`)

export const userVocabulary: Vocabulary<UserColumn> = {
  fields: userColumns,
  usualNames: {
    email: words('emailaddress mail useremail customeremail contactemail login username'),
    receiverApiKey: words('apikey receiverkey crmkey apitoken serviceapikey xserviceapikey accesskey accesstoken token key secret'),
    subscribed: words('issubscribed subscription active isactive enabled optin leadpush'),
    type: words('querytype searchtype'),
    value: words('zipcode zip postalcode postcode queryvalue query search searchvalue area place location city'),
    radius: words('radiusmiles radiusmi miles distance distancemiles within'),
  },
  looksLike: {
    email: isEmail,
    receiverApiKey: (text) => isKey.test(text.trim()) && !isEmail(text),
    subscribed: (text) => parseYesOrNo(text.trim()) !== undefined,
    type: (text) => /^(zipcode|text)$/i.test(text.trim()),
    radius: (text) => !Number.isNaN(parseRadius(text.trim())),
  },
  byValuesAlone: { email: () => 0.2 },
} // biome-ignore format: a line a field
