/** `serve` as a whole: listens with the endpoints, runs the subscription pushes behind them, and ends both. */

import { findReadOnly } from '../db/open.ts'
import { listenOn } from '../http/listen.ts'
import { type AppOptions, buildApp, type RequestEntry } from './build-app.ts'
import { createMetrics } from './metrics.ts'
import { type PushProcessEnd, startPushProcess } from './push-process.ts'
import { SubscriptionPushes } from './subscription-pushes.ts'
import { findTriggerFigures } from './trigger-figures.ts'
import { countOwedSubscriptions } from './waiting-subscriptions.ts'

type Inner = 'metrics' | 'onOwed' | 'onLimited' | 'onUntrustedProxy' | 'onDatabaseAway' | 'onDatabaseBack'

/** The dependencies and listeners of `serve`. */
export interface ServerOptions extends Omit<AppOptions, Inner> {
  host: string
  port: number
  /** The environment of child processes. */
  childEnv: Readonly<Record<string, string>>
  /** `userId`: undefined for a process that served all who were owed a push. */
  onPushEnded(userId: number | undefined, end: PushProcessEnd): void
  /** Called for each line of diagnostics of a child process. */
  onPushLine(line: string): void
  onNote(text: string): void
  onWarning(text: string): void
}

export type { PushProcessEnd, RequestEntry }

/** A server that listens. */
export interface RunningServer {
  url: string
  /** Answers the requests under way, passes `signal` on to the child processes and waits for them, a few seconds at most. */
  close(signal: NodeJS.Signals): Promise<void>
}

/** Requests under way get so long: looking a hook URL up may take 5 s. */
const answersGraceMs = 7_000
/** Child processes are waited for so long; then they go on by themselves. */
const pushesGraceMs = 3_000

const describeUntrusted = (peer: string) =>
  `A proxy at ${peer} passes requests on (X-Forwarded-For) and is not trusted: all its callers count as one, and one bad caller ` +
  `locks out all. Add ${peer} to LEADPUSH_TRUST_PROXY.`

/** Starts everything. Throws `usage` if it cannot listen at the host and port. */
export async function startServer(options: ServerOptions): Promise<RunningServer> {
  const { db, onTrouble } = options
  const pushes = new SubscriptionPushes({
    db,
    start: (email) => startPushProcess(email, options.childEnv, options.onPushLine),
    onEnded: (user, end) => {
      metrics.notePushEnded(end.exitCode)
      options.onPushEnded(user?.id, end)
    },
    onTrouble,
  })
  const metrics = createMetrics({
    pushesUnderWay: () => pushes.underWayCount,
    pushesWaiting: () => pushes.waiting,
    pushesOwed: () => countOwedSubscriptions(db).catch(() => undefined),
    isWritable: () =>
      findReadOnly(db).then(
        (readOnly) => readOnly === undefined,
        () => false,
      ),
    triggers: () => findTriggerFigures(db).catch(() => undefined),
  })
  let isAway = false
  let isWarned = false
  const { app, hardServer } = buildApp({
    ...options,
    metrics,
    onOwed: (userId) => pushes.note(userId),
    onLimited: (limit) => metrics.noteLimited(limit),
    onUntrustedProxy(peer) {
      metrics.noteUntrusted()
      if (!isWarned) options.onWarning(describeUntrusted(peer))
      isWarned = true
    },
    onDatabaseAway(error) {
      if (!isAway) onTrouble(error)
      isAway = true
      // looking for owed pushes starts the embedded database again
      pushes.look()
    },
    onDatabaseBack() {
      if (isAway) options.onNote('The database answers again.')
      isAway = false
    },
  })
  await app.ready()
  const { url } = await listenOn(hardServer.server, options.host, options.port)
  pushes.run()
  return {
    url,
    async close(signal) {
      const stopped = pushes.stop(signal, pushesGraceMs)
      await app.close()
      await hardServer.close(answersGraceMs)
      await stopped
    },
  }
}
