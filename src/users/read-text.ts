/** The texts of a users file as people write them: yes or no, and a radius. */

const yes = new Set(['true', 't', 'yes', 'y', '1', 'on'])
const no = new Set(['false', 'f', 'no', 'n', '0', 'off'])

/** Undefined for a text that says neither. */
export function parseYesOrNo(text: string): boolean | undefined {
  const lower = text.toLowerCase()
  return yes.has(lower) ? true : no.has(lower) ? false : undefined
}

/** A radius as people write it: `25`, `2.5`, `25 mi`, `25 miles`; NaN for anything else. */
export function parseRadius(text: string): number {
  const [, digits] = /^(\d{1,9}(?:\.\d*)?|\.\d+)\s*(?:mi|miles?)?$/i.exec(text) ?? []
  return digits === undefined ? Number.NaN : Number(digits)
}
