/**
 * Bars as SVG, stacked over weeks or days. Each plot is drawn twice, for a phone and for a
 * desk, so that its text stays readable; the style shows one. Colours are classes; hatching and the order tell them apart too.
 */
import { scaleBand, scaleLinear } from 'd3-scale'
import { type Html, html } from './html.ts'
import { buildTable, type TableParts } from './table.ts'

/** A class of the style, with a colour, and a hatching if it needs one. */
export type Fill = 'delivered' | 'failed' | 'unknown' | 'skipped' | 'accent' | 'soft'

/** One row of values of a bar plot, in one colour. */
export interface Series {
  name: string
  fill: Fill
  /** One value for each category. */
  values: readonly number[]
}

/** Stacked bars: one bar for each category, one layer for each series. */
export interface BarParts {
  /** The labels below the axis, one for each bar; some are left out if there is no room. */
  categories: readonly string[]
  series: readonly Series[]
  /** Words a mark of the value axis. */
  format(value: number): string
}

const margin = { top: 10, right: 4, bottom: 26, left: 52 }
const widths = { narrow: 340, broad: 900 } as const
const height = 220
const categoryWidthPx = 46

const px = (value: number) => Math.round(value * 10) / 10

/** The hatching of a fill, so that colour alone need not tell it. */
const hatches: Partial<Record<Fill, Html>> = {
  failed: html`<path class="hatch" d="M-2 2l4-4M0 8l8-8M6 10l4-4"/>`,
  unknown: html`<path class="hatch" d="M0 4h8"/>`,
  skipped: html`<path class="hatch" d="M4 0v8"/>`,
}

/** The hatching of all plots; a page contains it once. */
export function buildHatches(): Html {
  const patterns = Object.entries(hatches).map(
    ([fill, lines]) =>
      html`<pattern id="hatch-${fill}" width="8" height="8" patternUnits="userSpaceOnUse"><rect class="fill-${fill}" width="8" height="8"/>${lines}</pattern>`,
  )
  return html`<svg class="unseen" width="0" height="0" aria-hidden="true"><defs>${patterns}</defs></svg>`
}

const paint = (fill: Fill) => (hatches[fill] ? html`fill="url(#hatch-${fill})"` : html`class="fill-${fill}"`)

function buildLegend(series: readonly Series[]): Html {
  const entries = series.map(
    ({ name, fill }) =>
      html`<li><svg width="14" height="14" aria-hidden="true"><rect ${paint(fill)} width="14" height="14" rx="3"/></svg>${name}</li>`,
  )
  return html`<ul class="legend">${entries}</ul>`
}

type ValueScale = (value: number) => number

function buildGrid(
  scale: ValueScale,
  ticks: readonly number[],
  width: number,
  format: (value: number) => string,
): Html[] {
  return ticks.map((tick) => {
    const y = px(scale(tick)) + 0.5
    return html`<line class="${tick === 0 ? 'base' : 'grid'}" x1="${margin.left}" x2="${width - margin.right}" y1="${y}" y2="${y}"/><text x="${margin.left - 8}" y="${y}" dy="0.32em" text-anchor="end">${format(tick)}</text>`
  })
}

function drawBars({ categories, series, format }: BarParts, size: keyof typeof widths): Html {
  const width = widths[size]
  const totals = categories.map((_, at) => series.reduce((sum, { values }) => sum + (values[at] ?? 0), 0))
  const top = Math.max(1, ...totals)
  const y = scaleLinear([0, top], [height - margin.bottom, margin.top]).nice(4)
  const x = scaleBand([margin.left, width - margin.right])
    .domain(categories.map((_, at) => String(at)))
    .padding(0.28)
  const band = x.bandwidth()
  const ticks = y.ticks(4).filter((tick) => Number.isInteger(tick) || top < 1)
  const bars = categories.map((_, at) => {
    let base = 0
    return series.map(({ values, fill }) => {
      const value = values[at] ?? 0
      if (value <= 0) return null
      const from = y(base)
      base += value
      // even the smallest value stays visible
      const barHeight = Math.max(from - y(base), 1.5)
      return html`<rect ${paint(fill)} x="${px(x(String(at)) ?? 0)}" y="${px(from - barHeight)}" width="${px(band)}" height="${px(barHeight)}"/>`
    })
  })
  const step = Math.ceil(categoryWidthPx / (x.step() || 1))
  const labels = categories.map((label, at) =>
    // counted from the newest bar, which always has its label
    (categories.length - 1 - at) % step === 0
      ? html`<text x="${px((x(String(at)) ?? 0) + band / 2)}" y="${height - 8}" text-anchor="middle">${label}</text>`
      : null,
  )
  return html`<svg class="${size}" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" aria-hidden="true">${buildGrid(y, ticks, width, format)}${bars}${labels}</svg>`
}

export interface FigureParts {
  title: string
  /** The content of the drawing in words: printed beside it, and read out by screen readers. */
  summary: string
  drawing: Html
  /** The same figures as a table, which opens on demand. */
  table?: TableParts
}

/** A figure with its summary in words and, folded away, its figures as a table. */
export function buildFigure({ title, summary, drawing, table }: FigureParts): Html {
  return html`<figure>
<figcaption><h3>${title}</h3><p>${summary}</p></figcaption>
<div class="drawing">${drawing}</div>
${table && html`<details><summary>${title}: as a table</summary>${buildTable({ ...table, captionHidden: true })}</details>`}
</figure>
`
}

/** Stacked bars with their legend, or a word if there is nothing to draw; `name` is read out. */
export function buildBars(name: string, parts: BarParts): Html {
  const isNone = parts.series.every(({ values }) => values.every((value) => value <= 0))
  if (isNone) return html`<p class="note">None.</p>`
  const isSingle = parts.series.length === 1
  return html`<div class="plot" role="img" aria-label="${name}">${drawBars(parts, 'narrow')}${drawBars(parts, 'broad')}</div>${!isSingle && buildLegend(parts.series)}`
}
