/** Makes the outlines on maps of us-atlas (1:10,000,000, public data of the Census Bureau). `npm run outline` writes them. */
import { readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { meshArcs } from 'topojson-client'
import type { GeometryCollection, MultiPolygon, Polygon, Topology } from 'topojson-specification'
import { packageRoot } from '../../src/base/package-root.ts'

export const outlineFile = 'src/inspect/page/map/outline.json'

type Shape = (Polygon | MultiPolygon) & { properties?: { name?: string } }
type Atlas = Topology<{ states: GeometryCollection; nation: GeometryCollection }>

const polygonsOf = (shape: Shape) => (shape.type === 'Polygon' ? [shape.arcs] : shape.arcs)

/** The text of the file: a line of it for each list, which readers of changes can tell apart. */
export function buildOutline(): string {
  const path = createRequire(import.meta.url).resolve('us-atlas/states-10m.json')
  const atlas = JSON.parse(readFileSync(path, 'utf8')) as Atlas
  const { nation, states } = atlas.objects
  const parts = {
    scale: atlas.transform?.scale,
    translate: atlas.transform?.translate,
    land: (nation.geometries as Shape[]).flatMap(polygonsOf),
    borders: meshArcs(atlas, states, (a, b) => a !== b).arcs,
    states: (states.geometries as Shape[]).map((state) => ({
      name: state.properties?.name,
      polygons: polygonsOf(state),
    })),
    lines: atlas.arcs,
  }
  const members = Object.entries(parts).map(([name, value]) => `"${name}":${JSON.stringify(value)}`)
  return `{\n${members.join(',\n')}\n}\n`
}

const [, script] = process.argv
if (script !== undefined && import.meta.url === pathToFileURL(script).href) {
  writeFileSync(join(packageRoot, outlineFile), buildOutline())
}
