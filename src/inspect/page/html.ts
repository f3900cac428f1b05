/** HTML as a value: a template escapes its values unless they are HTML already, so text from data stays text. */

export class Html {
  readonly text: string
  constructor(text: string) {
    this.text = text
  }
}

export type Part = Html | string | number | null | undefined | false | readonly Part[]

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

/** Safe as text and inside a quoted attribute; characters that no page may hold become U+FFFD. */
export function escapeHtml(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: just these are meant
  const allowed = text.toWellFormed().replace(/[\0-\x08\x0b\x0c\x0e-\x1f\x7f]/g, '\ufffd')
  return allowed.replace(/[&<>"']/g, (character) => entities[character] ?? '')
}

function render(part: Part): string {
  if (part === null || part === undefined || part === false) return ''
  if (part instanceof Html) return part.text
  return typeof part === 'object' ? part.map(render).join('') : escapeHtml(String(part))
}

/** A template: html`<p>${text}</p>`. Attributes with data in them have to be quoted. */
export function html(strings: TemplateStringsArray, ...parts: readonly Part[]): Html {
  return new Html(strings.reduce((text, string, at) => text + render(parts[at - 1]) + string))
}

/** A sentence whose commands stand between backticks. */
export const withCode = (sentence: string): Html[] =>
  sentence.split('`').map((part, at) => (at % 2 === 1 ? html`<code>${part}</code>` : html`${part}`))

/** Marks text of the program as HTML; never for data. */
export const trusted = (text: string): Html => new Html(text)
