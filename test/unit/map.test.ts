import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { packageRoot } from '../../src/base/package-root.ts'
import { borders, land, namedStates } from '../../src/inspect/page/map/outline.ts'
import { buildCircle, buildView, height, width } from '../../src/inspect/page/map/view.ts'
import { buildMap, type MapParts } from '../../src/inspect/page/map.ts'
import { distanceMiles } from '../../src/places/distance.ts'
import { buildOutline, outlineFile } from '../pages/outline.ts'
import { places } from '../support/places.ts'

const at = (latitude: number, longitude: number) => ({ latitude, longitude })
const austin = at(30.27, -97.74)
const anchorage = at(61.2, -149.9)
const honolulu = at(21.3, -157.8)
const sanJuan = at(18.4, -66.06)
const toronto = at(43.7, -79.4)
const seattle = at(47.6, -122.3)
const london = at(51.5, -0.1)

const draw = (parts: Partial<MapParts>) =>
  buildMap({ id: 'map', title: 'Map', description: 'A map.', counted: ['listing', 'listings'], points: [], ...parts })
    .text
const dotsOf = (text: string) => [
  ...(/<g class="dots">.*?<\/g>/s.exec(text)?.[0] ?? '').matchAll(/M(-?[\d.]+),(-?[\d.]+)h0/g),
]

test('the outlines are those that `npm run outline` makes, with all states in them', () => {
  // not `equal`: it would show all of both
  assert.ok(
    readFileSync(join(packageRoot, outlineFile), 'utf8') === buildOutline(),
    'npm run outline makes another file',
  )
  assert.equal(land.coordinates.length, 250)
  assert.ok(borders.coordinates.flat().length > 1_000)
  // 50 states, the District of Columbia, 5 territories
  assert.equal(new Set(namedStates.map(({ name }) => name)).size, 56)
  for (const ring of [land, ...namedStates.map(({ shape }) => shape)].flatMap(({ coordinates }) => coordinates.flat()))
    assert.deepEqual(ring.at(0), ring.at(-1))
})

test('what lies near together is a region, true to scale wherever it is; what lies far apart is the nation', () => {
  for (const centre of [austin, anchorage, honolulu, sanJuan, toronto]) {
    const circle = { ...centre, radiusMiles: 25 }
    const view = buildView([], [circle], land)
    assert.equal(view.kind, 'region')
    const corners = buildCircle(circle).coordinates[0] as [number, number][]
    const drawn = corners.map(
      ([longitude, latitude]) => view.project({ longitude, latitude }) ?? ([Number.NaN, 0] as const),
    )
    const [x, y] = view.project(centre) ?? [0, 0]
    for (const [longitude, latitude] of corners)
      assert.ok(Math.abs(distanceMiles(centre, { latitude, longitude }) - 25) < 0.01)
    for (const [a, b] of drawn) {
      assert.ok(Math.abs(Math.hypot(a - x, b - y) * view.milesPerUnit - 25) < 0.1)
      assert.ok(a > 0 && a < width && b > 0 && b < height)
    }
  }
  assert.equal(buildView([austin, at(32, -97)], [], land).kind, 'region')
  assert.equal(buildView([austin, seattle], [], land).kind, 'nation')
  assert.equal(buildView([], [], land).kind, 'nation')
  // both sides of the date line
  assert.equal(buildView([at(52, 179), at(52, -179)], [], land).kind, 'region')
})

test('whatever is not on the map is counted below it', () => {
  const points = [austin, anchorage, honolulu, sanJuan, london].map((point, nth) => ({ ...point, count: 10 ** nth }))
  const text = draw({ points, circles: [{ ...london, radiusMiles: 9 }], unplaced: 1 })
  assert.equal(dotsOf(text).length, 3)
  assert.match(text, /<p class="note">11,000 listings outside the states/)
  assert.match(text, /<p class="note">1 circle outside/)
  assert.match(text, /<p class="note">1 listing not on this map: nobody knows/)
  // for who does not see it too
  assert.match(text, /<desc id="map-text">A map\. 11,000 listings outside/)
  assert.doesNotMatch(draw({ points: points.slice(0, 3) }), /class="note"/)
})

test('the map is small, whatever it shows, and has no colour of its own', () => {
  const codes = places.all
  const points = Array.from({ length: 20_000 }, (_, nth) => ({ ...at(0, 0), ...codes[nth * 2], count: nth + 1 }))
  const circles = Array.from({ length: 1_000 }, (_, nth) => ({
    ...at(0, 0),
    ...codes[nth * 40],
    radiusMiles: nth / 10,
  }))
  const text = draw({ points, circles })
  assert.ok(text.length < 300_000, `${text.length}`)
  const region = codes
    .filter(({ longitude, latitude }) => Math.hypot(longitude + 97, latitude - 31) < 6)
    .map((code) => ({ ...code, count: 1 }))
  const regional = draw({ points: region, circles: circles.map((circle) => ({ ...circle, ...austin })) })
  assert.match(regional, /class="map region"/)
  assert.ok(regional.length < 300_000, `${regional.length}`)
  for (const one of [text, regional]) assert.doesNotMatch(one, /#[0-9a-f]{3}|rgb|style=|NaN|Infinity|undefined/)
})

test('a single listing, names from data, and nothing at all make a map', () => {
  const name = '</title><script>alert(1)</script>'
  const one = draw({ points: [{ ...austin, count: 1, name }], towns: [{ ...austin, name }], title: name })
  assert.doesNotMatch(one, /<script/)
  assert.equal(one.split('&lt;script&gt;').length, 4)
  assert.match(one, /<text class="state start"[^>]*>Texas</)
  assert.match(one, />\d+ miles?</)
  assert.match(draw({}), /class="map nation"/)
})

test('names are never over one another, and fewer the smaller the map is', () => {
  const towns = places.all.slice(0, 5_000).map((code) => ({ ...code, name: `Town ${code.code}` }))
  const text = draw({ towns })
  const names = [...text.matchAll(/class="l(\d)" x="([\d.]+)" y="([\d.]+)"/g)].map(([, level, x, y]) =>
    [level, x, y].map(Number),
  )
  const letters = [30, 20, 13]
  for (const [level, letter] of letters.entries()) {
    const shown = names.filter(([of = 0]) => of <= level)
    assert.ok(shown.length > 0)
    for (const [, x = 0, y = 0] of shown) {
      const near = shown.filter(([, a = 0, b = 0]) => Math.abs(a - x) < 10 * 0.5 * letter && Math.abs(b - y) < letter)
      assert.equal(near.length, 1)
    }
  }
})
