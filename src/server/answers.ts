/** The schemas of the inbound endpoints: one set that checks bodies, types the answers and makes the OpenAPI document. */
import * as z from 'zod'
import { hookUrlCharsMax } from '../base/limits.ts'
import { triggerKinds } from '../integrations/hooks.ts'
import { kinds } from '../triggers/kinds/kinds.ts'

const msg = z.string().meta({ description: 'A sentence for a person.' })
const done = { ok: z.literal(true), msg }

/** The body of every answer that grants nothing. */
export const refusalSchema = z.object({ ok: z.literal(false), msg })

export const testAnswerSchema = z.object({
  ...done,
  date: z.iso.datetime({ offset: true }).meta({ description: 'The time of the answer.' }),
  userEmail: z.string().meta({ description: "The e-mail of the integration's user." }),
})

export const sampleAnswerSchema = z.object({
  ...done,
  leads: z
    .array(z.union(triggerKinds.map((kind) => kinds[kind].schema)))
    .meta({ description: 'Leads in the form of the requested trigger.' }),
})

const named = new Intl.ListFormat('en').format(triggerKinds.map((kind) => `\`${kind}\``))
const unknownTrigger = `\`trigger\` is unknown: there are ${named}.`
export const triggerProblem = `${unknownTrigger} Give one, or a list of them.`
export const sampleTriggerProblem = `${unknownTrigger} Give one of them, once.`
export const triggerSchema = z.enum(triggerKinds)

export const subscribeBodySchema = z.object(
  {
    hookUrl: z
      .string({ error: '`hookUrl` is missing: give the https: URL that triggers are sent to, as text.' })
      .meta({ format: 'uri', maxLength: hookUrlCharsMax, description: 'An https: URL at public addresses.' }),
    trigger: z
      .union([triggerSchema, z.array(triggerSchema).min(1, { error: triggerProblem })], { error: triggerProblem })
      .nullish()
      .meta({
        description: 'The triggers of the hook; if absent or null: `new_lead`, or those of the hook with this URL.',
      }),
  },
  { error: 'The body must be a JSON object with `hookUrl`.' },
)

export const subscribeAnswerSchema = z.object({
  ...done,
  id: z.string().meta({ description: 'The id of the hook, for `unsubscribe`.' }),
})

export const unsubscribeBodySchema = z
  .object({
    id: z.string().optional().meta({ description: 'The id that `subscribe` answered with.' }),
    hookUrl: z.string().optional(),
  })
  .meta({ description: 'Which hook to remove; without `id` and `hookUrl`, all hooks of the integration.' })

/** The answer of `unsubscribe` and of the endpoints that tell whether `serve` is well. */
export const doneSchema = z.object(done)

export type TestAnswer = z.output<typeof testAnswerSchema>
export type SampleAnswer = z.output<typeof sampleAnswerSchema>
export type SubscribeAnswer = z.output<typeof subscribeAnswerSchema>
export type Done = z.output<typeof doneSchema>
