/**
 * A map as part of a page: the United States or a region of them, points sized by their count, circles true to scale. It is
 * drawn with the classes of map/style.ts, so it follows the page's colours; notes below it count what is not on it.
 */
import { type Html, html, trusted } from './html.ts'
import { buildSizes, type Dot, dotPixels, findMost, gatherDots, namedDotsMax } from './map/dots.ts'
import { type Name, placeLabels } from './map/labels.ts'
import { borders, land, namedStates } from './map/outline.ts'
import { buildCircle, buildView, type Circle, height, type Point, type View, width } from './map/view.ts'

/** A dot; its area shows `count`, and `name` appears where the pointer rests on it. */
export interface MapPoint extends Point {
  count: number
  name?: string
}

/** A circle true to scale; `name` appears where the pointer rests on it. */
export interface MapCircle extends Circle {
  name?: string
}

export interface MapParts {
  /** What the ids of the map begin with; no other map of the page has it. */
  id: string
  title: string
  /** What the map shows, for screen readers. */
  description: string
  points: readonly MapPoint[]
  /** What is counted: `listing`, `listings`. */
  counted: readonly [one: string, many: string]
  circles?: readonly MapCircle[]
  /** What a circle is: `a query's radius`. */
  circled?: string
  /** Names for orientation, the most important first; see places/towns.ts. */
  towns?: readonly (Point & { name: string })[]
  /** How many of the counted things have no known location. */
  unplaced?: number
}

const number = new Intl.NumberFormat('en-US')
const namedCirclesMax = 200
/** A state has its name on the map if it fills more than this share. */
const stateShareMin = 0.03
/** A region counts as lying in a state that fills more than this share. */
const cornerShareMin = 0.6
/** This many towns get their names before the states do. */
const townsFirst = 3

const units = (value: number) => String(Math.round(value * 10) / 10)

function drawDots(dots: readonly Dot[], sizeOf: (count: number) => number): Html {
  const spot = ({ x, y }: Dot) => `M${units(x)},${units(y)}h0`
  // smaller dots are drawn last, on top
  const sizes = dotPixels.map((_, at) => dotPixels.length - 1 - at)
  const ofSize = (size: number) => dots.filter(({ count }) => sizeOf(count) === size)
  return html`<g class="dots">${sizes.map((size) => {
    const some = ofSize(size)
    if (some.length === 0) return ''
    if (dots.length > namedDotsMax) return html`<path class="s${size}" d="${some.map(spot).join('')}"/>`
    return some.map((dot) => html`<path class="s${size}" d="${spot(dot)}"><title>${dot.name}</title></path>`)
  })}</g>`
}

function drawCircles(view: View, circles: readonly MapCircle[]): { drawn: Html; missing: number } {
  const shapes = new Map<string, { d: string; centre: string; name: string | undefined }>()
  const isMany = circles.length > namedCirclesMax
  let missing = 0
  for (const circle of circles) {
    const centre = view.project(circle)
    const corners = Math.min(
      isMany ? 18 : 72,
      Math.max(12, Math.ceil(9 * Math.sqrt(circle.radiusMiles / view.milesPerUnit))),
    )
    const d = circle.radiusMiles > 0 ? view.draw(buildCircle(circle, corners), isMany ? 'rough' : undefined) : ''
    if (!centre) missing += 1
    else shapes.set(d || centre.join(), { d, centre: `M${units(centre[0])},${units(centre[1])}h0`, name: circle.name })
  }
  const all = [...shapes.values()]
  const drawn = isMany
    ? html`<path d="${all.map(({ d }) => d).join('')}"/>`
    : all.map(({ d, name }) => d && html`<path d="${d}">${name && html`<title>${name}</title>`}</path>`)
  const centres = html`<path class="centres" d="${all.map(({ centre }) => centre).join('')}"/>`
  return { drawn: html`<g class="circles${isMany && ' many'}">${drawn}${centres}</g>`, missing }
}

/** The name of the state that a region lies in stands in the corner; that of another state, in the middle of its visible part. */
function drawLabels(view: View, towns: readonly (Point & { name: string })[]): Html {
  const names: Name[] = []
  for (const { name, ...point } of towns) {
    const at = view.project(point)
    if (at) names.push({ text: name, x: at[0], y: at[1], isState: false })
  }
  const seen =
    view.kind === 'nation'
      ? []
      : namedStates
          .map(({ name, shape }) => ({ text: name, ...view.look(shape) }))
          .filter(({ share }) => share > stateShareMin)
          .sort((a, b) => b.share - a.share)
  const [first] = seen
  const corner = first && (seen.length === 1 || first.share > cornerShareMin) ? first : undefined
  const inPlace = seen.filter((state) => state !== corner)
  names.splice(townsFirst, 0, ...inPlace.map(({ text, middle: [x, y] }) => ({ text, x, y, isState: true })))
  return html`<g class="names">${placeLabels(names).map(
    ({ text, x, y, level, isState }) =>
      html`<text class="l${level}${isState && ' state'}" x="${units(x)}" y="${units(y)}" dy="1.3em">${text}</text>`,
  )}${corner && html`<text class="state start" x="24" y="16" dy="1em">${corner.text}</text>`}</g>`
}

/** A bar of a round number of miles, true to scale. */
function drawScale({ kind, milesPerUnit }: View): Html {
  if (kind === 'nation') return html``
  const most = 200 * milesPerUnit
  const power = 10 ** Math.floor(Math.log10(most))
  const miles = [5, 2, 1].map((factor) => factor * power).find((value) => value <= most) ?? power
  const [x, y] = [24, height - 20]
  return html`<g class="scale"><path d="M${x},${y - 8}v8h${units(miles / milesPerUnit)}v-8"/><text class="start" x="${x + 5}" y="${y}" dy="-0.5em">${number.format(miles)} ${miles === 1 ? 'mile' : 'miles'}</text></g>`
}

function buildLegend(
  { counted: [one, many], circles, circled }: MapParts,
  dots: readonly Dot[],
  sizeOf: (count: number) => number,
): Html {
  const most = dots.length > 0 ? findMost(dots) : 0
  const counts = [1, Math.round(most / 4), most].filter(
    (count, at, all) => count > 0 && !all.slice(0, at).some((other) => sizeOf(other) === sizeOf(count)),
  )
  const sample = (inner: Html) =>
    html`<svg class="map" width="26" height="26" viewBox="0 0 26 26" aria-hidden="true">${inner}</svg>`
  return html`<ul class="legend">
${counts.map(
  (
    count,
  ) => html`<li>${sample(html`<g class="dots"><path class="s${sizeOf(count)}" d="M13,13h0"/></g>`)}${number.format(count)} ${count === 1 ? one : many}</li>
`,
)}${
  circles?.some(({ radiusMiles }) => radiusMiles > 0) &&
  html`<li>${sample(html`<g class="circles"><circle cx="13" cy="13" r="10"/></g>`)}${circled}</li>
`
}</ul>
`
}

/** The content of a `figure`: the map, its legend, and notes on what is not on it. About 300 KB at most, whatever it shows. */
export function buildMap(parts: MapParts): Html {
  const { id, title, description, points, counted, circles = [], towns = [], unplaced = 0 } = parts
  const view = buildView(points, circles, land)
  const found: Dot[] = []
  let missing = 0
  for (const { count, name, ...point } of points) {
    const at = view.project(point)
    if (at) found.push({ x: at[0], y: at[1], count, name })
    else missing += count
  }
  const dots = gatherDots(found)
  const sizeOf = buildSizes(dots)
  const drawn = drawCircles(view, circles)
  const plural = (count: number, [one, many]: readonly [string, string]) =>
    `${number.format(count)} ${count === 1 ? one : many}`
  const notes = [
    missing > 0 && `${plural(missing, counted)} outside the states, as in Puerto Rico or Canada, are not on this map.`,
    drawn.missing > 0 && `${plural(drawn.missing, ['circle', 'circles'])} outside the states: not on this map.`,
    unplaced > 0 && `${plural(unplaced, counted)} not on this map: nobody knows where the postal code lies.`,
  ].filter((note) => note !== false)
  return html`<div class="mapped">
<svg class="map ${view.kind}" viewBox="0 0 ${width} ${height}" role="img" aria-labelledby="${id}-title ${id}-text">
<title id="${id}-title">${title}</title><desc id="${id}-text">${description}${notes.map((note) => ` ${note}`)}</desc>
<path class="land" d="${trusted(view.draw(land, 'outline'))}"/><path class="borders" d="${trusted(view.draw(borders, 'outline'))}"/>
${drawn.drawn}${drawDots(dots, sizeOf)}${drawLabels(view, towns)}${drawScale(view)}
</svg>
${buildLegend(parts, dots, sizeOf)}${notes.map(
  (note) => html`<p class="note">${note}</p>
`,
)}</div>
`
}
