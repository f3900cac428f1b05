/** Every fixed limit of the interface and of leadpush itself, each named once. Sizes are bytes, times milliseconds. */

/** contract 4.3: the leads that one query may bring to a delivery. */
export const leadsPerQueryMax = 300
/** contract 4.2: one request body. */
export const bodyBytesMax = 5_000_000
/** contract 4.5: attempts of one delivery, the first included. */
export const attemptsMax = 2
/** contract 4.1: the key that the receiver gave a user, in visible ASCII characters. */
export const receiverKeyCharsMax = 50
/** A key that no receiver may ever give to a user: `probe` tries whether it is refused. */
export const neverValidReceiverKey = 'leadpush-key-that-is-never-valid'
/** contract 4.5: a 2xx response that is longer counts as ended here; the connection is closed. */
export const responseBytesMax = 64 * 1024
/** contract 4.16: so many characters of a refusal's words are kept. */
export const answerCharsMax = 300
/** So much of an answer that is not JSON is read for its first words. */
export const answerTextBytesMax = 16 * 1024
/** contract 2: the longest pause that a `Retry-After` can ask for. */
export const retryAfterMsMax = 5 * 60_000

/** contract 5: a longer text of a sample is cut, as a listing may have 8 MiB. Longer than an `href` may be, which stays whole. */
export const sampleTextCharsMax = 2_500

/** contract 4.10: one record of an import. */
export const recordBytesMax = 8 * 1024 * 1024
/** contract 4.10: lists and objects of a record within each other. Many more exhaust the stack of code that walks through them. */
export const recordDepthMax = 100
/** contract 4.10: values of a record of JSON, and columns of a CSV file: a small file may have millions. */
export const recordValuesMax = 200_000
/** Names in a record of JSON: many that differ take many times their bytes. */
export const recordKeysMax = 50_000
export const columnsMax = 10_000
/** contract 4.10: an `href`, as UTF-8. */
export const hrefBytesMax = 2_048
/** contract 4.10: any number of a lead. */
export const leadNumberMax = 1e12
/** contract 4.9: so much of a description is searched. */
export const searchedDescriptionCharsMax = 100_000

/** contract 4.11 */
export const queryValueCharsMax = 500
/** contract 4.11 */
export const queriesPerUserMax = 1_000
/** contract 4.11 */
export const emailCharsMax = 254
/** contract 4.9, miles. */
export const radiusMilesMax = 100

/**
 * contract 4.12: how many first attempts in a row must end alike to prove trouble of the receiver; if fewer are made, all of at least
 * `alikeMin`. contract 4.5: the same for empty successes.
 */
export const alikeInARow = 20
export const alikeMin = 2
/**
 * contract 4.12: once so many have ended alike, the next users are drawn at random; before the first other answer a few more, since so many
 * may be under way at once.
 */
export const alikeDrawnAfter = 5
export const alikeFirstDrawnAfter = 8
/** contract 4.12: the pause between two attempts, and between two second attempts, while the receiver refuses every delivery alike. */
export const refusalTryMs = 3_600_000
export const refusalSecondMs = 24 * 3_600_000
/** contract 4.12: the pause before an attempt while the receiver is down, which doubles with each. */
export const outagePauseMs = 10_000
export const outagePauseMsMax = 5 * 60_000
/** contract 4.12: while the receiver is down at most one second attempt is made in so long. */
export const outageSecondMs = 3_600_000
/** contract 4.12: how long a pace that a receiver asked for is kept for later runs. */
export const paceDays = 30
/** While the receiver is down, a connection to it is tried so often, for so long each time. */
export const outageCheckMs = 10_000
/** A push reads the findings of others about the receiver so often. */
export const outageLookMs = 1_000
/** contract 2, `LEADPUSH_DATABASE_AWAY`: its default. A database that is away for longer ends the command. */
export const databaseAwayMsDefault = 120_000
/** A command of short statements gives up a connection that is silent for so long: the database's machine may be gone. */
export const databaseSilentMsMax = 25_000
/** contract 5.3: so soon after a user's last subscription push no further one is owed. */
export const subscriptionPauseMs = 60_000
/** contract 2: a dead man's switch that is slow must not hold up a push. */
export const pingTimeoutMs = 10_000
/** How often a ping without an answer is repeated in that time, and the first pause before that. */
export const pingRepeatsMax = 2
export const pingPauseMs = 200
export const pingBodyBytesMax = 10_000
/** contract 3, `status --check`: so long after the last `push --all` that finished a monitor must call. */
export const monitoredRunDays = 8
/** contract 3, `status --check`: users left, triggers due or hooks failing for so long are an alarm. */
export const leftDays = 1
/** contract 3, `status --check`: so much of the subscribed users without a lead is an alarm. */
export const withoutLeadShare = 0.5

/** contract 3: an API key that exists elsewhere, in visible ASCII characters. */
export const apiKeyCharsMin = 16
export const apiKeyCharsMax = 200
/** contract 5.3 */
export const hooksPerIntegrationMax = 100
/** contract 5.2 */
export const hookUrlCharsMax = 2_048
/** contract 5.2: how long the name in a hook URL may take to be resolved. */
export const hookLookupMsMax = 5_000
/** contract 3: telling a platform that its hook is removed. */
export const hookRemovalTimeoutMs = 5_000
/** contract 6.1: new leads for one hook of one run. */
export const leadsPerHookMax = 300
/** contract 6.1, 6.4: so long dropped and abandoned triggers are kept for `trigger --again`. */
export const lostKeptDays = 30
/** contract 6.2 */
export const triggerRunMsMax = 10 * 60_000
/** contract 6.4 */
export const triggerTimeoutMs = 10_000
/** contract 6.4: the pauses after each failed attempt; one more failure, and the trigger is given up. */
export const triggerPausesMs = [
  60_000, 5 * 60_000, 30 * 60_000, 2 * 3_600_000, 8 * 3_600_000, 16 * 3_600_000, 24 * 3_600_000, 24 * 3_600_000,
] as const // biome-ignore format: a list
/** contract 6.4: each pause is up to this part longer, at random: hooks that failed together come back one by one. */
export const triggerJitter = 0.1
/** contract 6.4 honours a longer `Retry-After`; for so long at most. */
export const triggerRetryAfterMsMax = 7 * 86_400_000
/** contract 6.5 */
export const triggersPerSecondMax = 10
/** contract 6.5: to one hook, and in all. */
export const triggersAtOncePerHookMax = 2
export const triggersAtOnceMax = 64
/** contract 6.5: so many failures in a row pause a hook. */
export const failuresInARow = 5
/**
 * contract 6.5: to one host in a second. Attempts are so far apart that a second has no more of them, though the way to the host may
 * take a little longer for one than for the next, and the next run begins at once.
 */
export const triggersPerHostSecondMax = 30
export const hostTurnSpacingMs = 1_050 / triggersPerHostSecondMax
/** For so long a hook is shown as in trouble after a trigger for it was abandoned or dropped. */
export const abandonedShownDays = 7

/** Rows that `prune` deletes in one transaction. */
export const pruneRowsMax = 5_000
/** `prune` rebuilds indexes for so long at most: another transaction that never ends must not hold it up. */
export const indexRebuildMsMax = 30 * 60_000
/** Listings that `leads forget` erases in one transaction. */
export const listingsPerErasureMax = 5_000
/** Erased versions whose deliveries `leads forget` counts. */
export const versionsCountedMax = 100_000
/** `leads forget` waits for attempts under way with erased listings, for so long at most: that of two longest attempts. */
export const eraseWaitMsMax = 20 * 60_000
/** For so long a process that was frozen, or lost its database, may still continue its run. */
export const frozenRunDays = 35
/** contract 4.14: later weeks are compared with data younger than so many days. */
export const comparedDays = 60
/** An import is kept for so long: only the first imports of younger listings are known. */
export const importDays = 60
/** contract 4.14: the weeks before that the median is of, and how many listings it must be of. */
export const comparedWeeksMax = 4
export const comparedListingsMin = 100
/** contract 4.14: a run is held when a figure is this part of the median, or less. */
export const weekFall = 2
/** contract 4.14: a user is held who had so many leads, and gets this part of them, or less: 95 % fewer. */
export const comparedLeadsMin = 50
export const userFall = 20
/** contract 5.1: a request body to `serve`. */
export const requestBodyBytesMax = 64 * 1024
/** contract 5.1: a database that does not answer a request of `serve` for so long is away. */
export const databaseAnswerMsMax = 2_000
/** A statement waits so long for the locks of others; less than the command that waits for the statement. */
export const lockWaitMsMax = 1_500
/** contract 5.3: child processes of `serve` at once. */
export const pushChildrenMax = 2
/** contract 5.3: if more users wait for a subscription push, one child process serves all of them. */
export const pushesAloneMax = 4
/** So long after a 415 to a compressed delivery the receiver's `Accept-Encoding` counts for nothing (contract 4.17). */
export const gzipRefusalMs = 86_400_000
