/**
 * Builds a page as one file. It contains its style, and its policy lets nothing run or load: so it works as a mail attachment, and makes
 * no request.
 */
import { createHash } from 'node:crypto'
import { type Html, html, trusted } from './html.ts'
import { style } from './style.ts'

/** The content of a page; `title` is its name in the browser. */
export interface PageParts {
  title: string
  /** Holds the one `h1`. */
  header: Html
  main: Html
  footer: Html
}

const hashOf = (text: string) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`

const policy = ["default-src 'none'", `style-src ${hashOf(style)}`, "base-uri 'none'", "form-action 'none'"].join('; ')

/** The whole file. The policy forbids `style` attributes, event handlers, images and links to files in the parts. */
export function buildDocument({ title, header, main, footer }: PageParts): string {
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<meta name="robots" content="noindex">
<title>${title}</title>
<style>${trusted(style)}</style>
</head>
<body>
<header>
${header}
</header>
<main>
${main}
</main>
<footer>
${footer}
</footer>
</body>
</html>
`.text
}

/** A part of the page with a heading of its own. */
export function buildSection({ id, title, body }: { id: string; title: string; body: Html }): Html {
  return html`<section aria-labelledby="${id}">
<h2 id="${id}">${title}</h2>
${body}
</section>
`
}

export interface KeyFigure {
  name: string
  value: string
  /** What the value means, in a few words. */
  note?: string | Html
  /** Colours the value, where it is bad or good news. */
  tone?: 'good' | 'bad' | 'doubtful'
}

/** A row of large figures, each with its name and its note. */
export function buildKeyFigures(figures: readonly KeyFigure[]): Html {
  return html`<dl class="figures">
${figures.map(
  ({ name, value, note, tone }) =>
    html`<div><dt>${name}</dt><dd class="${[tone, !/\d/.test(value) && 'word'].filter(Boolean).join(' ')}">${value}${note && html`<small>${note}</small>`}</dd></div>
`,
)}</dl>
`
}
