/**
 * The files of California's Delete Request and Opt-out Platform (DROP): its technical specifications 1.2.0 of 2 July 2026, at
 * privacy.ca.gov/drop-for-data-brokers/technical-specifications. Only this file has the names, columns, standardising, hashes and status
 * codes.
 */
import { hash } from 'node:crypto'
import { basename } from 'node:path'

/** "Reference", list types; leadpush has the identifiers of the first two. */
export const listTypes = ['Email', 'Phone', 'NDZ', 'MAID', 'NameVIN', 'CTVID'] as const
export type ListType = (typeof listTypes)[number]
/** The lists whose identifiers a listing may have, as the kinds of their marks. */
export const kindOfList = { Email: 'email', Phone: 'phone' } as const
export type ListKind = (typeof kindOfList)[keyof typeof kindOfList]

/** The content of a file. */
export type DropFileType = ListType | 'Removed'

/** "Reference", file naming pattern; the identifier of a data broker is "currently 4 digits". */
const namePattern = new RegExp(`^\\d{8}_\\d{4,10}_(${listTypes.join('|')}|Removed)(?:_[A-Za-z0-9]{1,10})?\\.csv$`)

/** The content of a file by its name, under which its response is uploaded too; undefined if the name is not one of the platform's. */
export function parseDropFileName(file: string): DropFileType | undefined {
  return namePattern.exec(basename(file))?.[1] as DropFileType | undefined
}

/** "Working with the data", the columns of downloaded files. */
export const columnsOf = (type: DropFileType): readonly string[] =>
  type === 'Removed' ? ['ID', 'Hash', 'ListType'] : ['ID', 'Hash']

/** The specification says 12 characters of Base62, and has an example with 3. */
export const isWorkItemId = (text: string): boolean => /^[A-Za-z0-9]{1,64}$/.test(text)

/** The 32 bytes of a SHA-256 in Base64; undefined for any other text. */
export function parseDropHash(text: string): Buffer | undefined {
  return /^[A-Za-z0-9+/]{43}=$/.test(text) ? Buffer.from(text, 'base64') : undefined
}

/** "Standardization and hashing": e-mail without any white space, in lower case; dots and plus signs stay. */
export const standardiseEmail = (text: string): string => text.replace(/\s+/g, '').toLowerCase()

/** "Standardization and hashing": the last 10 digits of a phone number, or all if it has fewer. */
export const standardisePhone = (text: string): string => text.replace(/\D/g, '').slice(-10)

/** The hash of an identifier, whose text is UTF-8; undefined if nothing is left of it. */
export function hashIdentifier(kind: ListKind, text: string): Buffer | undefined {
  const standard = kind === 'email' ? standardiseEmail(text) : standardisePhone(text)
  return standard === '' ? undefined : hash('sha256', standard, 'buffer')
}

/** "Integration workflow", step 6: the two outcomes that leadpush can have. */
export const statusCodes = { deleted: 3, notFound: 5 } as const

/** "API operations", upload: the header of a response, which must be exactly this. */
export const responseHeader = 'Id,Status\n'

export const responseLine = (id: string, status: number): string => `${id},${status}\n`
