/** `serve` as a whole: the endpoints on their address, the subscription pushes behind them, and how both come to an end. */

import { listenOn } from '../http/listen.ts'
import { countOwedSubscriptions } from '../push/subscriptions.ts'
import { type AppOptions, buildApp, type RequestEntry } from './build-app.ts'
import { createMetrics } from './metrics.ts'
import { type PushProcessEnd, startPushProcess } from './push-process.ts'
import { SubscriptionPushes } from './subscription-pushes.ts'

type Inner = 'metrics' | 'onOwed' | 'onLimited' | 'onUntrustedProxy' | 'onDatabaseAway' | 'onDatabaseBack'

export interface ServerOptions extends Omit<AppOptions, Inner> {
  host: string
  port: number
  /** What child processes get of the environment. */
  childEnv: Readonly<Record<string, string>>
  onPushEnded(userId: number, end: PushProcessEnd): void
  /** A line of diagnostics of a child process. */
  onPushLine(line: string): void
  onNote(text: string): void
  onWarning(text: string): void
}

export type { PushProcessEnd, RequestEntry }

export interface RunningServer {
  url: string
  /** Answers what is under way, passes `signal` on to the child processes and waits for them; a few seconds at most. */
  close(signal: NodeJS.Signals): Promise<void>
}

/** A hook URL that is being looked up may take 5 s. */
const answersGraceMs = 7_000
/** Child processes go on by themselves. */
const pushesGraceMs = 3_000

const describeUntrusted = (peer: string) =>
  `A proxy at ${peer} passes requests on (X-Forwarded-For) and is not trusted: all its callers count as one, and one bad caller ` +
  `locks out all. Add ${peer} to LEADPUSH_TRUST_PROXY.`

/** Throws `usage` where it cannot listen there. */
export async function startServer(options: ServerOptions): Promise<RunningServer> {
  const { db, onTrouble } = options
  const pushes = new SubscriptionPushes({
    db,
    start: (email) => startPushProcess(email, options.childEnv, options.onPushLine),
    onEnded: ({ id }, end) => {
      metrics.notePushEnded(end.exitCode)
      options.onPushEnded(id, end)
    },
    onTrouble,
  })
  const metrics = createMetrics({
    pushesUnderWay: () => pushes.underWayCount,
    pushesWaiting: () => pushes.waiting,
    pushesOwed: () => countOwedSubscriptions(db).catch(() => undefined),
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
      // who looks there brings the embedded one back
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
