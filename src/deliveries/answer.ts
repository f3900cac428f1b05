/**
 * Reads the words of an answer (contract 4.16): the texts of a JSON body, the title or the first words of another. Nothing else
 * of the body is kept, and keys and contacts are taken out of the words.
 */
import { answerCharsMax, answerTextBytesMax, responseBytesMax } from '../base/limits.ts'
import { spellOut } from '../base/printable.ts'
import { redact } from '../base/redact.ts'
import type { HttpAnswer } from '../http/exchange.ts'

type AnswerBody = Pick<HttpAnswer, 'status' | 'contentType' | 'contentEncoding' | 'body'>

/** In the order in which they are shown. */
const names = ['title', 'detail', 'msg', 'message', 'error'] as const

/** A longer text is cut here. The cut may split a key or a contact, so the last `charsNearEnd` characters are dropped. */
const charsRead = 4_000
const charsNearEnd = 300

type JsonObject = Readonly<Record<string, unknown>>

const isObject = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const textsOf = (value: unknown): string[] => (typeof value === 'string' ? [value] : [])

const namedTexts = (value: JsonObject): string[] => names.flatMap((name) => textsOf(value[name]))

/** The values one level below `errors`: texts, objects with named texts, or lists of texts by field. */
function textsBelow(value: unknown): string[] {
  if (Array.isArray(value)) return value.flatMap((each) => (isObject(each) ? namedTexts(each) : textsOf(each)))
  if (!isObject(value)) return textsOf(value)
  const named = namedTexts(value)
  if (named.length > 0) return named
  return Object.values(value).flatMap((each) =>
    Array.isArray(each) ? each.flatMap(textsOf) : isObject(each) ? namedTexts(each) : textsOf(each),
  )
}

function findJsonTexts(json: unknown): string[] {
  if (!isObject(json)) return textsBelow(json)
  const error = isObject(json.error) ? namedTexts(json.error) : []
  return [...namedTexts(json), ...error, ...textsBelow(json.errors)]
}

function parseJson(text: string): { json: unknown } | undefined {
  try {
    return { json: JSON.parse(text) }
  } catch {
    return undefined
  }
}

/** Elements that separate words; others may stand within a word. */
const block =
  /<\/?(?:address|article|body|br|dd|div|dl|dt|footer|h[1-6]|head|header|hr|html|li|main|ol|p|pre|section|table|td|th|title|tr|ul)\b[^<>]*>/gi

/** The title, or the text if there is no title. */
function readHtml(html: string): string {
  const plain = html.replace(/<!--[\s\S]*?-->|<(script|style)\b[\s\S]*?<\/\1\s*>/gi, ' ')
  const title = /<title\b[^<>]*>([\s\S]*?)<\/title\s*>/i.exec(plain)?.[1]?.trim()
  return (title || plain).replace(block, ' ').replace(/<[^<>]*>/g, '')
}

const isHtml = (contentType: string, text: string) =>
  /html|xml/.test(contentType) || /^\s*<(?:!doctype|html|head|body|\?xml)/i.test(text)

function decodeText(body: Buffer, contentType: string): string {
  const charset = /charset="?([\w-]+)/.exec(contentType)?.[1] ?? 'utf-8'
  try {
    return new TextDecoder(charset).decode(body)
  } catch {
    return body.toString()
  }
}

/** Cuts at `max` characters, whole ones. */
function cut(text: string, max: number): string {
  if (text.length <= max) return text
  return `${text
    .slice(0, max - 1)
    .replace(/[\ud800-\udbff]$/, '')
    .trimEnd()}…`
}

function shorten(text: string, secrets: readonly string[]): string | undefined {
  const isLong = text.length > charsRead
  const redacted = redact(text.slice(0, charsRead), secrets)
  const whole = isLong ? redacted.slice(0, -charsNearEnd) : redacted
  const shown = cut(spellOut(whole.toWellFormed().trim()), answerCharsMax)
  return shown === '' ? undefined : shown
}

/**
 * The words of an answer of 400 or more; undefined if it has none, or is compressed. `secrets`, the parts of the request that only its
 * receiver may know, are taken out of them.
 */
export function readAnswer(answer: AnswerBody, secrets: readonly string[]): string | undefined {
  const { status, body, contentEncoding = 'identity' } = answer
  if (status < 400 || body === undefined || body.length === 0 || contentEncoding.trim().toLowerCase() !== 'identity')
    return undefined
  const contentType = (answer.contentType ?? '').toLowerCase()
  if (contentType !== '' && !/json|html|xml|^text\//.test(contentType)) return undefined
  const parsed = /json|^$|text\/plain/.test(contentType) ? parseJson(decodeText(body, contentType)) : undefined
  if (parsed && (typeof parsed.json === 'object' || typeof parsed.json === 'string'))
    return shorten(
      [...new Set(findJsonTexts(parsed.json).map((text) => text.trim()))].filter(Boolean).join('; '),
      secrets,
    )
  // JSON that was cut: its beginning may be the delivery itself, with names
  if (parsed === undefined && contentType.includes('json') && body.length >= responseBytesMax) return undefined
  const text = decodeText(body.subarray(0, answerTextBytesMax), contentType)
  // bytes that are not text
  if (text.includes('\0')) return undefined
  const words = isHtml(contentType, text) ? readHtml(text) : text
  return shorten(words.replace(/\s+/g, ' '), secrets)
}

/** A login page, or that of a proxy. */
export const isPage = (contentType = ''): boolean => /^\s*text\/html\b/i.test(contentType)

/** Why a 2xx may not be a success (contract 4.5): it is a page, or a JSON object that says that it failed. */
export function findEmptySuccess({ contentType, contentEncoding = 'identity', body }: AnswerBody): string | undefined {
  if (isPage(contentType))
    return 'the receiver answered with a page (text/html), as a login page or a proxy does; LEADPUSH_RECEIVER_URL may lead to one'
  // cheaper than parsing: without this literal no field is false
  if (body === undefined || contentEncoding !== 'identity' || !body.includes('false')) return undefined
  const parsed = parseJson(decodeText(body, ''))
  if (!parsed || !isObject(parsed.json)) return undefined
  const { json } = parsed
  const name = ['ok', 'success'].find((each) => json[each] === false)
  return name && `the receiver answered with 2xx and "${name}": false: its log says whether it has the leads`
}

const segmentCharsMin = 6
const valueCharsMin = 4

/** The parts of a URL that may be secret: user name, password, query, the longer segments of its path. */
export function secretsOf(url: string): string[] {
  const { username, password, search, searchParams, pathname } = new URL(url)
  const values = [...searchParams.values()].filter(({ length }) => length >= valueCharsMin)
  const segments = pathname.split('/').filter(({ length }) => length >= segmentCharsMin)
  return [username, password, search.slice(1), ...values, ...segments].filter((text) => text !== '')
}
