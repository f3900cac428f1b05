/** Checks that a receiver takes deliveries of every size and content that a push may send (contract 4.2, 4.3, 4.10). */
import { gzipSync } from 'node:zlib'
import { bodyBytesMax, leadNumberMax, leadsPerQueryMax } from '../../base/limits.ts'
import { both, fail, type ProbeCheck, type ProbeContext, pass, warn } from './check.ts'
import { buildBodyOf, buildLongHref, buildMadeUpBody, otherQuery, query } from './made-up.ts'
import { atOnce } from './sender.ts'

/** A check that one delivery is taken. */
function taken(check: Omit<ProbeCheck, 'run'>, build: (context: ProbeContext) => Buffer, advice: string): ProbeCheck {
  return {
    ...check,
    async run(context) {
      const sent = await context.sender.send(build(context), { key: context.madeUp.newKey() })
      return sent.ok ? pass(sent) : fail(sent, advice)
    },
  }
}

export const example: ProbeCheck = taken(
  {
    name: 'example',
    title: 'An ordinary delivery is taken',
    clause: '4.1',
    sends: 'a delivery with one query and one lead of which all is known',
  },
  ({ madeUp }) => buildMadeUpBody([query], [madeUp.lead('example')]),
  'Answer a right delivery with a 2xx; nothing else was tried.',
)

export const bodyChecks: readonly ProbeCheck[] = [
  taken(
    {
      name: 'bare-lead',
      title: 'A lead with few known fields is taken',
      clause: '4.2',
      sends: 'a lead with null and 0 for all that is optional, and without fullAddress',
    },
    ({ madeUp }) => buildMadeUpBody([query], [madeUp.bareLead('bare')]),
    'Every field but href and postalCode may be unknown: null, 0, and fullAddress left out.',
  ),
  taken(
    {
      name: 'no-leads',
      title: 'A delivery without leads is taken',
      clause: '4.3',
      sends: 'a query and an empty list of leads',
    },
    () => buildMadeUpBody([query], []),
    'A user whose queries match nothing gets a delivery with `fsbos` empty.',
  ),
  taken(
    {
      name: 'values',
      title: 'Text in any script and the largest values are taken',
      clause: '4.2',
      sends: 'accents, emoji, Chinese, quotes, line breaks, HTML; a price of 1e12, fractions, an href of 2,048 bytes',
    },
    ({ madeUp }) => {
      const description =
        'made up: ünïcode 🏡 房子 "quoted" \\ back\nline\u2028line\ttab <b>bold</b> \u0001 %s {{x}} \'; --'
      const href = buildLongHref(madeUp.lead('values').href)
      const numbers = { price: leadNumberMax, bathrooms: 2.25 }
      return buildMadeUpBody(
        [query],
        [madeUp.lead('values', { href, description, contactName: 'Zoë O’Made-up 🏠', ...numbers })],
      )
    },
    'A body is UTF-8 JSON; text may hold any character but NUL. Numbers go to 1e12, and an href has up to 2,048 bytes.',
  ),
  taken(
    {
      name: 'body-5-mb',
      title: '600 leads of two queries, 5,000,000 bytes, are taken',
      clause: '4.2',
      sends: '600 leads of a zipcode and a text query with long descriptions, 5,000,000 bytes',
    },
    ({ madeUp }) => buildBodyOf(bodyBytesMax, [query, otherQuery], madeUp.leads('large', 2 * leadsPerQueryMax)),
    'Raise the limit of the receiver, and of a proxy before it, to 5,000,000 bytes.',
  ),
  {
    name: 'compressed',
    title: 'A compressed delivery is taken, or refused with 415',
    clause: '4.17',
    sends: '300 leads of one query, with Content-Encoding: gzip',
    async run({ sender, madeUp }) {
      const plain = buildMadeUpBody([query], madeUp.leads('compressed', leadsPerQueryMax))
      const gzipped = gzipSync(plain)
      const saved = `compressing saves ${Math.floor((1 - gzipped.length / plain.length) * 100)} % of these bytes`
      const sent = await sender.send(gzipped, { key: madeUp.newKey(), headers: { 'Content-Encoding': 'gzip' } })
      const received = `${sent.received}; ${saved}`
      const { acceptsGzip } = sender
      if (sent.ok && acceptsGzip) return pass({ received })
      if (sent.ok) {
        return { ...pass({ received }), advice: 'Answer with `Accept-Encoding: gzip`, and deliveries come compressed.' }
      }
      if (acceptsGzip) return fail({ received }, 'It says `Accept-Encoding: gzip`: take such bodies, or do not say so.')
      if (sent.status === 415) return pass({ received })
      return warn(
        { received },
        'Take it, or answer 415: with LEADPUSH_COMPRESS=gzip the second attempt is uncompressed then.',
      )
    },
  },
  {
    name: 'several-at-once',
    title: 'Several deliveries at once are taken',
    clause: '4.5',
    sends: `${atOnce} deliveries at the same moment, each with a key of its own`,
    async run({ sender, madeUp }) {
      const sent = await Promise.all(
        Array.from({ length: atOnce }, (_, at) =>
          sender.send(buildMadeUpBody([query], [madeUp.lead('shared'), madeUp.lead(`at-once-${at}`)]), {
            key: madeUp.newKey(),
          }),
        ),
      )
      const refused = sent.filter(({ ok }) => !ok)
      if (refused.length === 0) return pass({ received: `${atOnce} times a 2xx` })
      const advice = 'A push has LEADPUSH_CONCURRENCY (16) requests under way at once: take them, or have that lowered.'
      return fail(
        { received: `${refused.length} of ${atOnce} were not taken. ${both(...refused.slice(0, 3)).received}` },
        advice,
      )
    },
  },
]
