/**
 * Figures in Prometheus' text format 0.0.4: of `serve` for a scrape, and of a run for node exporter's textfile collector. The text is
 * made synchronously, since a process that is exiting cannot wait.
 */

export const expositionType = 'text/plain; version=0.0.4; charset=utf-8'

export type Labels = Readonly<Record<string, string>>

const escapeLabel = (text: string) => text.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n')

/** How long things took: a histogram, whose buckets are cumulative, as in Prometheus. */
export class Durations {
  private readonly bounds: readonly number[]
  private readonly counts: number[]
  private sum = 0
  private count = 0

  /** `bounds`: the upper ends of the buckets except the last, which has none. */
  constructor(bounds: readonly number[]) {
    this.bounds = bounds
    this.counts = bounds.map(() => 0)
  }

  add(seconds: number): void {
    this.sum += seconds
    this.count++
    for (const [at, bound] of this.bounds.entries()) if (seconds <= bound) this.counts[at] = (this.counts[at] ?? 0) + 1
  }

  /** Its samples, by the ending of the name and the label `le`. */
  *samples(): Generator<readonly [ending: string, le: Labels, value: number]> {
    for (const [at, bound] of this.bounds.entries()) yield ['_bucket', { le: `${bound}` }, this.counts[at] ?? 0]
    yield ['_bucket', { le: '+Inf' }, this.count]
    yield ['_sum', {}, this.sum]
    yield ['_count', {}, this.count]
  }
}

/** A value, or values by their labels; undefined if unknown: then the metric is left out. */
type Value<T> = T | readonly (readonly [Labels, T])[] | undefined

const isList = <T>(value: T | readonly (readonly [Labels, T])[]): value is readonly (readonly [Labels, T])[] =>
  Array.isArray(value)

/** A gauge: the end of its name, its help, and its value of a state. */
export type Gauge<S> = readonly [name: string, help: string, value: (state: S) => Value<number>]

/** Renders metrics. */
export class Exposition {
  private readonly common: Labels
  private text = ''

  /** `common`: labels of all samples. */
  constructor(common: Labels = {}) {
    this.common = common
  }

  gauge(name: string, help: string, value: Value<number>): void {
    for (const [labels, number] of this.begin(name, help, 'gauge', value)) this.sample(name, labels, number)
  }

  gauges<S>(prefix: string, gauges: readonly Gauge<S>[], state: S): void {
    for (const [name, help, value] of gauges) this.gauge(`${prefix}_${name}`, help, value(state))
  }

  /** `name` ends in `_total`. */
  counter(name: string, help: string, value: Value<number>): void {
    for (const [labels, number] of this.begin(name, help, 'counter', value)) this.sample(name, labels, number)
  }

  histogram(name: string, help: string, value: Value<Durations>): void {
    for (const [labels, durations] of this.begin(name, help, 'histogram', value)) {
      for (const [ending, le, number] of durations.samples()) this.sample(name + ending, { ...labels, ...le }, number)
    }
  }

  private begin<T>(name: string, help: string, type: string, value: Value<T>): readonly (readonly [Labels, T])[] {
    if (value === undefined) return []
    this.text += `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n`
    return isList(value) ? value : [[{}, value]]
  }

  private sample(name: string, labels: Labels, value: number): void {
    const shown = Object.entries({ ...this.common, ...labels }).map(([key, text]) => `${key}="${escapeLabel(text)}"`)
    this.text += `${name}${shown.length > 0 ? `{${shown.join(',')}}` : ''} ${value}\n`
  }

  toString(): string {
    return this.text
  }
}
