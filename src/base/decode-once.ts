/** Decodes what may hide a contact or a key in a text: entities of HTML, escapes of JSON and of URLs. */

/** Texts are decoded so often at most: a JSON text within a JSON text within HTML. */
export const decodeRoundsMax = 4

const entities: Readonly<Record<string, string>> = {
  amp: '&', lt: '<', gt: '>', quot: '"', apos: "'", nbsp: ' ', commat: '@', period: '.', plus: '+', hyphen: '-', dash: '-',
  lpar: '(', rpar: ')', sol: '/', lowbar: '_', num: '#', equals: '=', colon: ':', comma: ',', percnt: '%', dollar: '$',
} // biome-ignore format: a table

const fromCode = (code: number, otherwise: string) =>
  code > 0 && code <= 0x10ffff ? String.fromCodePoint(code) : otherwise

/** Entities of HTML, escapes of JSON and of URLs, each once. */
export function decodeOnce(text: string): string {
  return text
    .replace(/&#x([0-9a-f]{1,6});?/gi, (all, hex: string) => fromCode(Number.parseInt(hex, 16), all))
    .replace(/&#([0-9]{1,7});?/g, (all, digits: string) => fromCode(Number(digits), all))
    .replace(/&([a-z]{2,8});?/gi, (all, name: string) => entities[name.toLowerCase()] ?? all)
    .replace(/\\(?:u([0-9a-f]{4})|u\{([0-9a-f]{1,6})\}|x([0-9a-f]{2})|(["\\/@.+-]))/gi, decodeBackslash)
    .replace(/(?:%[0-9a-f]{2})+/gi, decodePercent)
}

function decodeBackslash(all: string, four?: string, braced?: string, two?: string, itself?: string): string {
  const hex = four ?? braced ?? two
  return hex === undefined ? (itself ?? all) : fromCode(Number.parseInt(hex, 16), all)
}

function decodePercent(escapes: string): string {
  try {
    return decodeURIComponent(escapes)
  } catch {
    return escapes
  }
}
