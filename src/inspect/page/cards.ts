/** Builds cards that are complete without a script; the page's script adds a search, sorting and a filter. */
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
  /** The `value` of the card's group in `groups`: the filter goes by it. */
  group: string
  /** Values to sort by, under the keys of `sorts`; a card with null comes last. */
  values: Readonly<Record<string, number | null>>
}

export interface CardsParts {
  /** What the cards are, for screen readers: `the listings`. */
  name: string
  cards: readonly Card[]
  /** The first is the order in which `cards` come. */
  sorts: readonly { name: string; key: string; falls?: boolean }[]
  groups: { name: string; all: string; options: readonly { value: string; name: string }[] }
  /** A sentence on the cards that were left out. */
  more?: string | undefined
}

const isLink = (href: string) => /^https?:\/\//i.test(href) && URL.canParse(href)

function buildCard({ figure, title, href, facts, text, notes, group, values }: Card): Html {
  const data = Object.entries(values).map(([key, value]) => value !== null && html` data-${key}="${value}"`)
  const name = html`<bdi>${title}</bdi>`
  return html`<li data-group="${group}"${data}>
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
export function buildCards({ name, cards, sorts, groups, more }: CardsParts): Html {
  const tools = JSON.stringify({ name, sorts, groups })
  return html`<div class="cards" data-tools="${tools}">
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
.choice { display: flex; align-items: center; gap: 0.625rem; min-width: 0; color: var(--muted); font-size: 0.875rem }
.choice select { min-width: 0; max-width: min(20rem, 60vw); padding: 0.375rem 0.5rem; border: 1px solid var(--skipped); border-radius: 6px; background: var(--ground); color: var(--text); font: inherit }
.cards .tools { gap: 0.625rem 1.25rem; margin-bottom: 1rem }
.cards .tools output { flex-basis: 100% }
@media print { .cards .tools { display: none } .cards ul { grid-template-columns: 1fr 1fr; gap: 0.75rem } .cards li { break-inside: avoid } }
`

export const cardsScript = `
for (const box of document.querySelectorAll('.cards')) {
  const { name, sorts, groups } = JSON.parse(box.dataset.tools)
  const list = box.querySelector('ul')
  const cards = [...list.children]
  if (cards.length < 2) continue
  const texts = new Map(cards.map((card) => [card, card.textContent.toLowerCase()]))
  const make = (tag, properties, ...children) => {
    const made = Object.assign(document.createElement(tag), properties)
    made.append(...children)
    return made
  }
  const choose = (text, options) => make('select', {}, ...options.map(({ name, value }) => make('option', { value, textContent: name })))
  const field = make('input', { type: 'search', autocomplete: 'off', spellcheck: false })
  const order = choose('Sort', sorts.map(({ name }, at) => ({ name, value: at })))
  const group = choose(groups.name, [{ name: groups.all, value: '' }, ...groups.options])
  const found = make('output', {})
  const label = (className, text, control) => make('label', { className }, text, control)
  const hint = make('span', { className: 'unseen', textContent: ' ' + name })
  const search = make('label', { className: 'search' }, 'Search', hint, field)
  const tools = make('div', { className: 'tools' }, search, label('choice', 'Sort', order))
  if (groups.options.length > 1) tools.append(label('choice', groups.name, group))
  tools.append(found)
  box.prepend(tools)
  const show = () => {
    const words = field.value.toLowerCase().split(/\\s+/).filter(Boolean)
    let shown = 0
    for (const card of cards) {
      const fits = group.value === '' || card.dataset.group === group.value
      card.hidden = !fits || !words.every((word) => texts.get(card).includes(word))
      if (!card.hidden) shown += 1
    }
    found.textContent = shown === cards.length ? '' : shown + ' of ' + cards.length
  }
  const sort = () => {
    const { key, falls } = sorts[order.value]
    const indexes = new Map(cards.map((card, at) => [card, at]))
    const value = (card) => (card.dataset[key] === undefined ? Infinity : Number(card.dataset[key]) * (falls ? -1 : 1))
    list.append(...[...cards].sort((a, b) => (value(a) === value(b) ? indexes.get(a) - indexes.get(b) : value(a) - value(b))))
  }
  field.addEventListener('input', show)
  group.addEventListener('change', show)
  order.addEventListener('change', sort)
}
`
