/** Checks that a repeated key applies nothing twice, and that null erases no value (contract 4.5 to 4.7, 4.10). */
import { both, fail, notVisible, type ProbeCheck, type ProbeContext, pass, untold, warn } from './check.ts'
import { buildMadeUpBody, query } from './made-up.ts'
import type { SentDelivery } from './sender.ts'

const body = (...leads: object[]) => buildMadeUpBody([query], leads)

/** Whether the lead that was just sent again is the same as the stored one: this follow-up makes an effect visible. */
function isUnchanged({ tellsUnchanged }: ProbeContext, { counts }: SentDelivery): boolean | undefined {
  return counts === undefined || !tellsUnchanged ? undefined : counts.new === 0 && counts.changed === 0
}

export const keyChecks: readonly ProbeCheck[] = [
  {
    name: 'kept-when-answered',
    title: 'A delivery answered with a 2xx is kept',
    clause: '4.5',
    sends: 'a delivery, and its lead once more with a new key as soon as the answer is there',
    async run(context) {
      const { sender, madeUp } = context
      const lead = body(madeUp.lead('kept'))
      const first = await sender.send(lead, { key: madeUp.newKey() })
      const second = await sender.send(lead, { key: madeUp.newKey() })
      if (!first.ok || !second.ok)
        return fail(both(first, second), 'Take the same leads again with a new key: every week brings them.')
      if (!first.counts || !second.counts) return untold(both(first, second))
      context.tellsUnchanged = second.counts.unchanged === 1
      if (second.counts.new === 0) return pass({ received: 'the second answer knows the lead' })
      return fail(
        { received: 'the second answer counts the lead as new again' },
        'Answer with a 2xx only when the leads are committed: after it nothing is sent again.',
      )
    },
  },
  {
    name: 'same-key-same-body',
    title: 'The same key twice is answered alike',
    clause: '4.5',
    sends: 'a delivery, and the same once more with the same key: a second attempt',
    async run({ sender, madeUp }) {
      const key = madeUp.newKey()
      const lead = body(madeUp.lead('twice'))
      const first = await sender.send(lead, { key })
      const second = await sender.send(lead, { key })
      if (first.ok && second.ok && first.status === second.status) return pass(both(first, second))
      const advice = 'Answer a second attempt as the first: the first answer may have been lost on its way.'
      if (second.status === 409)
        return fail(both(first, second), `${advice} A 409 is right only while the first is under way.`)
      return (first.ok && second.ok ? warn : fail)(both(first, second), advice)
    },
  },
  {
    name: 'same-key-one-effect',
    title: 'The same key twice has one effect',
    clause: '4.6',
    sends:
      'a price of 1, then of 2 with another key, then the first delivery again; and to see it, the second with a third key',
    async run(context) {
      const { sender, madeUp } = context
      const [first, later] = [1, 2].map((price) => body(madeUp.lead('effect', { price }))) as [Buffer, Buffer]
      const key = madeUp.newKey()
      const all = [
        await sender.send(first, { key }),
        await sender.send(later, { key: madeUp.newKey() }),
        await sender.send(first, { key }),
        await sender.send(later, { key: madeUp.newKey() }),
      ] as const
      if (all.some(({ ok }) => !ok)) return notVisible(both(...all).received)
      const unchanged = isUnchanged(context, all[3])
      if (unchanged === undefined) return untold({ received: all[3].received })
      if (unchanged) return pass({ received: 'the price was still 2' })
      return fail(
        { received: 'the price was 1 again: the repeat was applied' },
        'Remember each X-Idempotency-Key that was applied, in the transaction that applies it, and do not apply it again.',
      )
    },
  },
  {
    name: 'same-key-at-once',
    title: 'The same key twice at once does no harm',
    clause: '4.5',
    sends: 'a delivery twice at the same moment, as when the first attempt ran into the timeout',
    async run({ sender, madeUp }) {
      const key = madeUp.newKey()
      const lead = body(madeUp.lead('at-once'))
      const sent = await Promise.all([1, 2].map(() => sender.send(lead, { key })))
      const isRight = sent.some(({ ok }) => ok) && sent.every(({ ok, status }) => ok || status === 409)
      if (isRight) return pass(both(...sent))
      return fail(
        both(...sent),
        'Answer one of them with a 2xx, and the other with that or, while it is under way, a 409.',
      )
    },
  },
  {
    name: 'same-key-other-body',
    title: 'The same key with another body is refused',
    clause: '4.7',
    sends: 'a price of 1, then of 2 with the same key; and to see it, the first with another key',
    async run(context) {
      const { sender, madeUp } = context
      const [first, other] = [1, 2].map((price) => body(madeUp.lead('other', { price }))) as [Buffer, Buffer]
      const key = madeUp.newKey()
      const one = await sender.send(first, { key })
      const two = await sender.send(other, { key })
      const advice = 'Answer it with 422 (or 409): otherwise the sender believes that it was delivered.'
      if (!one.ok) return notVisible(both(one, two).received)
      if (two.status !== null && two.status >= 400 && two.status < 500) return pass(both(one, two))
      if (!two.ok) return fail(both(one, two), advice)
      const three = await sender.send(first, { key: madeUp.newKey() })
      if (isUnchanged(context, three) !== false) return warn(both(one, two), advice)
      return fail({ received: `${both(one, two).received}; and it was applied` }, `Do not apply it. ${advice}`)
    },
  },
  {
    name: 'null-keeps',
    title: 'Null, and a field left out, never erase a value',
    clause: '4.10',
    sends: 'a lead of which all is known, then the same with null wherever that may be; and to see it, the first again',
    async run(context) {
      const { sender, madeUp } = context
      const full = madeUp.lead('null')
      const { fullAddress: _, ...rest } = full
      const nulls = Object.fromEntries(
        Object.entries(rest).map(([name, value]) =>
          typeof value === 'string' && !['href', 'postalCode', 'schemaVersion'].includes(name)
            ? [name, null]
            : [name, value],
        ),
      )
      const all = [
        await sender.send(body(full), { key: madeUp.newKey() }),
        await sender.send(body(nulls), { key: madeUp.newKey() }),
        await sender.send(body(full), { key: madeUp.newKey() }),
      ] as const
      const advice = 'Null says that the value is not known this week: keep the one that came before.'
      if (!all[1].ok) return fail(all[1], `Take null where a value is not known. ${advice}`)
      if (!all[0].ok || !all[2].ok) return notVisible(both(...all).received)
      const unchanged = isUnchanged(context, all[2])
      if (unchanged === undefined) return untold({ received: all[2].received })
      if (unchanged) return pass({ received: 'all values were still there' })
      return fail({ received: 'values were gone: the lead was counted as changed when they came back' }, advice)
    },
  },
]
