/**
 * How a map looks. Dots and lines keep their size on the screen; letters are set in the map's units, so they grow where the map
 * is small (labels.ts counts with these sizes).
 */
import { dotPixels } from './dots.ts'

const sizes = (factor: number) =>
  dotPixels.map((size, at) => `.map .s${at} { stroke-width: ${Math.round(size * factor * 10) / 10}px }`).join(' ')

export const mapStyle = `
.mapped { container: map / inline-size }
svg.map { width: 100%; overflow: hidden; border-radius: 8px }
svg.region { border: 1px solid var(--line) }
.legend svg.map { width: 26px; overflow: visible }
.map path { vector-effect: non-scaling-stroke; stroke-linejoin: round; fill: none }
.map .land { fill: var(--land) } .map .borders { stroke: var(--border); stroke-width: 1px }
.map .dots path { stroke: var(--lead); stroke-opacity: 0.75; stroke-linecap: round }
.map .circles path, .map circle { stroke: var(--circle); stroke-width: 1.5px; fill: var(--circle); fill-opacity: 0.1 }
.map .many path { stroke-width: 0.75px; stroke-opacity: 0.6 }
.map .circles .centres { stroke-width: 4px; stroke-linecap: round; fill: none }
.map text { fill: var(--text); font-size: 13px; text-anchor: middle; paint-order: stroke; stroke: var(--ground); stroke-opacity: 0.8; stroke-width: 0.22em; stroke-linejoin: round }
.map .state { fill: var(--muted); letter-spacing: 0.12em; text-transform: uppercase }
.map .scale path { stroke: var(--text); stroke-width: 1.5px } .map .start { text-anchor: start }
${sizes(1)}
@container map (max-width: 50rem) { .map text { font-size: 20px } .map .l2 { display: none } }
@container map (max-width: 34rem) { .map text { font-size: 30px } .map .l1 { display: none } ${sizes(0.7)} }
`
