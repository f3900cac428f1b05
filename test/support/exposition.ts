/** Reads Prometheus' text format strictly: anything on which a collector could stumble is an error. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'

export interface Family {
  type: string
  /**
   * Values by their labels as written, `` or `command="all",status="failed"`; in a histogram preceded by the ending of the
   * name.
   */
  samples: Map<string, number>
}

const sampleLine = /^([a-z_][a-z0-9_]*)(?:\{((?:[a-z_][a-z0-9_]*="(?:[^"\\\n]|\\["\\n])*",?)*)\})? (\S+)$/

export function readExposition(text: string): Map<string, Family> {
  const families = new Map<string, Family>()
  let name = ''
  assert.ok(text.endsWith('\n'))
  const lines = text.slice(0, -1).split('\n')
  for (const [at, line] of lines.entries()) {
    if (line === '') continue
    const help = /^# HELP (\S+) \S.*$/.exec(line)
    if (help) {
      name = help[1] ?? ''
      assert.ok(!families.has(name), `${name} comes twice`)
      const type = new RegExp(`^# TYPE ${name} (gauge|counter|histogram|summary)$`).exec(lines[at + 1] ?? '')
      assert.ok(type, `${name} has no type`)
      families.set(name, { type: type[1] ?? '', samples: new Map() })
    }
    if (line.startsWith('#')) continue
    const sample = sampleLine.exec(line)
    assert.ok(sample, line)
    const [, full = '', labels = '', value = ''] = sample
    const family = families.get(name)
    const ending = full.slice(name.length)
    assert.ok(family && full.startsWith(name), `${full} is not of ${name}`)
    assert.ok(family.type === 'histogram' ? /^_(bucket|sum|count)$/.test(ending) : ending === '', full)
    assert.ok(Number.isFinite(Number(value)) || /^nan$/i.test(value), line)
    assert.ok(!family.samples.has(ending + labels), `${line} comes twice`)
    family.samples.set(ending + labels, Number(value))
  }
  return families
}

const hasPromtool = spawnSync('promtool', ['--version']).status === 0

/** Runs `promtool`; undefined where there is none. */
export function askPromtool(args: readonly string[], input = ''): string | undefined {
  if (!hasPromtool) return undefined
  const { status, stdout, stderr } = spawnSync('promtool', args, { input, encoding: 'utf8' })
  return `${stdout}${stderr}${status === 0 ? '' : `exit ${status}`}`
}
