/** Builds cards that are complete without a script; the page's script adds a search. */
import { type Html, html } from './html.ts'

export interface Card {
  /** Printed large: what people look at first. */
  figure: string
  title: string
  /** Only http and https become a link. */
  href: string
  /** Short texts, side by side. */
  facts: readonly string[]
  text: string | null
  /** Small texts, below all else. */
  notes: readonly string[]
}

export interface CardsParts {
  /** What the cards are, for screen readers: `the listings`. */
  name: string
  cards: readonly Card[]
  /** A sentence on the cards that were left out. */
  more?: string | undefined
}

const isLink = (href: string) => /^https?:\/\//i.test(href) && URL.canParse(href)

function buildCard({ figure, title, href, facts, text, notes }: Card): Html {
  const name = html`<bdi>${title}</bdi>`
  return html`<li>
<h3>${isLink(href) ? html`<a href="${href}" rel="noreferrer noopener">${name}</a>` : name}</h3>
<p class="figure">${figure}</p>
${
  facts.length > 0 &&
  html`<p class="facts">${facts.map((fact) => html`<span><bdi>${fact}</bdi></span> `)}</p>
`
}${
  text &&
  html`<p class="text" dir="auto">${text}</p>
`
}<p class="note">${notes.map((note) => html`<span>${note}</span> `)}</p>
</li>
`
}

/** A list of cards; `more` is printed below it. */
export function buildCards({ name, cards, more }: CardsParts): Html {
  return html`<div class="cards"${cards.length > 1 && html` data-search="${name}"`}>
<ul aria-label="${name}">
${cards.map(buildCard)}</ul>
${more && html`<p class="more">${more}</p>`}
</div>
`
}

export const cardsStyle = `
.cards { margin-top: 1.5rem }
.cards ul { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 19rem), 1fr)); gap: 1rem; margin: 0; padding: 0; list-style: none }
.cards li { display: flex; flex-direction: column; min-width: 0; padding: 1rem 1.125rem; border: 1px solid var(--line); border-radius: 8px; overflow-wrap: anywhere }
.cards li[hidden] { display: none }
.cards h3 { order: 1; margin-top: 0.25rem; font-size: 0.9375rem; line-height: 1.35; font-weight: 600 }
.cards .figure { margin: 0; font-size: 1.25rem; font-weight: 650; line-height: 1.2; letter-spacing: -0.015em }
.cards .facts, .cards .text, .cards .note { order: 2; font-size: 0.875rem; line-height: 1.45 }
.cards .facts span:not(:last-child)::after, .cards .note span:not(:last-child)::after { content: '\\a0\\b7' }
.cards .text { display: -webkit-box; -webkit-box-orient: vertical; -webkit-line-clamp: 4; line-clamp: 4; overflow: hidden; color: var(--muted) }
.cards .note { margin-top: auto; padding-top: 0.625rem; font-size: 0.8125rem }
.cards .tools { margin-bottom: 1rem }
@media print { .cards .tools { display: none } .cards ul { grid-template-columns: 1fr 1fr; gap: 0.75rem } .cards li { break-inside: avoid } }
`
