/** A strict reference receiver, for developers of receivers and for trying a sender. */
import { once } from 'node:events'
import { messageOf, usageError } from '../../base/errors.ts'
import type { Database } from '../../db/open.ts'
import { type Faults, parseFail } from '../../receiver-kit/receiver/faults.ts'
import { startReceiver } from '../../receiver-kit/receiver/receiver.ts'
import { openVault, type SecretSettings } from '../../secrets/vault.ts'
import { receiverKeySchema } from '../../users/user.ts'
import { isReceiverKey } from '../../users/users.ts'
import type { CommandIo } from '../command-io.ts'
import { type AtDatabase, type ExitCode, readCount, wrongValue } from '../describe.ts'
import { fileOrInput } from '../input.ts'
import { readDuration } from '../option-values.ts'
import { createReceiverView } from './view.ts'

const keysBytesMax = 16 * 1024 * 1024

interface ReceiverOptions {
  keys?: string
  fail?: string[]
  delay?: string
  drop?: string | true
}

export async function receive(
  { io, open, readSettings }: AtDatabase<'host' | 'port' | 'secretKey'>,
  options: ReceiverOptions,
): Promise<ExitCode> {
  const { host, port } = readSettings()
  const faults = readFaults(options)
  const chooseKeys = await readKeys(io, options)
  return await open(
    async (opened, settings) => {
      const stop = io.stops.listen(() => {})
      const knowsKey = await chooseKeys(opened.db, settings)
      const view = await createReceiverView(io)
      try {
        const receiver = await startReceiver({
          db: opened,
          host,
          port,
          faults,
          ...(knowsKey && { knowsKey }),
          onDelivery: (delivery) => view.show(delivery),
          onTrouble: (error) => io.log.error(messageOf(error)),
        })
        await io.out.line(`leadpush receiver listening on ${receiver.url}`)
        if (!stop.signal.aborted) await once(stop.signal, 'abort')
        await receiver.close()
        view.end()
        return 0
      } finally {
        view.stop()
      }
    },
    { create: true, writes: true },
  )
}

type KnowsKey = (key: string) => boolean | Promise<boolean>
type ChooseKeys = (db: Database, settings: SecretSettings) => Promise<KnowsKey | undefined>

/** Decides which receiver keys are taken, once there is a database. Keys come from a file, since arguments show in the list of processes. */
async function readKeys(io: CommandIo, { keys }: ReceiverOptions): Promise<ChooseKeys> {
  if (keys === undefined) return async () => undefined
  if (keys === 'users') {
    return async (db, settings) => {
      const vault = await openVault(db, settings)
      return (key) => isReceiverKey(db, vault, key)
    }
  }
  const text = await fileOrInput(io, '--keys', keys, keysBytesMax)
  const known = new Set<string>()
  for (const [at, line] of text.split('\n').entries()) {
    const key = line.trim()
    if (key === '') continue
    const parsed = receiverKeySchema.safeParse(key)
    if (!parsed.success) throw usageError(`--keys: line ${at + 1} ${parsed.error.issues[0]?.message}`)
    known.add(key)
  }
  return async () => (key) => known.has(key)
}

function readFaults({ fail = [], delay, drop }: ReceiverOptions): Faults {
  const faults: Faults = {
    fail: fail.map((text) => {
      const parsed = parseFail(text)
      if (parsed) return parsed
      throw wrongValue('--fail', text, 'a status from 300 to 599 and how often, such as 503:2')
    }),
  }
  if (delay !== undefined) faults.delayMs = readDuration('--delay', delay, '0s', '10m')
  if (drop !== undefined) faults.drop = readCount('--drop', drop === true ? '1' : drop)
  return faults
}
