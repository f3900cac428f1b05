/** The outlines of the United States and the borders between the states (1:10,000,000, public data of the Census Bureau). */
import { feature, mesh } from 'topojson-client'
import type { GeometryCollection, Topology } from 'topojson-specification'
import states from 'us-atlas/states-10m.json' with { type: 'json' }

type Atlas = Topology<{ states: GeometryCollection<{ name: string }>; nation: GeometryCollection }>

// the imported type spells out every coordinate
const atlas = states as unknown as Atlas

export const land = feature(atlas, atlas.objects.nation)
export const borders = mesh(atlas, atlas.objects.states, (a, b) => a !== b)
/** The states as shapes, each with its `name`. */
export const namedStates = feature(atlas, atlas.objects.states).features
