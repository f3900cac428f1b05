/**
 * Rows of the tables of trouble, generated parts of docs/troubleshooting.md: messages and their meanings from here, what to do from the
 * program's own advice.
 */
import { adviseOn, type Troubles, tellSteps } from '../../src/inspect/status/advise-on.ts'
import { formatTable } from './table.ts'

interface Row {
  prints: string
  means: string
  /** What the program knows when it prints that. */
  troubles: Troubles
  /** How to mend this, where the program can only say what. */
  mend?: string
}

const ofReceiver: Row[] = [
  {
    prints: 'The receiver is down: 20 first attempts in a row failed; the last: …. Trying again after 10 s, then after twice as long each time.',
    means: 'it cannot be reached, or answers 5xx to everybody. The push waits for `LEADPUSH_OUTAGE`; later the hourly `push --resume` goes on',
    mend: 'mend the receiver',
    troubles: { receiver: { is: 'down' }, waits: true },
  },
  {
    prints: 'held: the receiver refuses every delivery alike: HTTP …',
    means: 'the URL is wrong, the receiver lost its keys, or a proxy before it refuses. Few users lost an attempt. A later push tries one, and goes on if the answer is another',
    mend: 'mend the cause',
    troubles: { receiver: { is: 'refuses', status: 401 }, waits: true },
  },
  {
    prints: 'held: none of the last … answers shows that the receiver took a delivery …',
    means: 'the URL leads to a login page, or to a proxy that answers 2xx to everything. Those deliveries are doubtful',
    mend: 'correct `LEADPUSH_RECEIVER_URL`',
    troubles: { receiver: { is: 'empty' }, waits: true, doubtful: 20 },
  },
  {
    prints: "HTTP 401: the receiver does not take the user's receiver key: …",
    means: 'the receiver changed their key, or the URL is that of another',
    mend: 'run `users import` with the new keys, or set the right `LEADPUSH_RECEIVER_URL`',
    troubles: { failed: 1 },
  },
  {
    prints: 'HTTP 413: the body is too large for the receiver, or for a proxy before it; …',
    means: 'a limit there is below 5,000,000 bytes',
    mend: 'raise that limit',
    troubles: { failed: 1 },
  },
  {
    prints: 'the proxy was not reached: …',
    means: 'nothing listens at the proxy that `HTTP_PROXY` or `HTTPS_PROXY` names; nothing was sent',
    mend: "correct these, or put the receiver's host into `NO_PROXY`",
    troubles: { failed: 1 },
  },
  {
    prints: '… did not come in time (LEADPUSH_TIMEOUT is …)',
    means: 'the delivery is `unknown`: it may have arrived',
    mend: 'ask the receiver for the idempotency key, which `leadpush status --user EMAIL --json` prints. If it lacks the delivery, mend the cause',
    troubles: { unknown: 1 },
  },
] // biome-ignore format: a list

const ofPush: Row[] = [
  {
    prints: 'held: … instead of …',
    means: '[the guard](operate.md#the-guard): far fewer listings, fields or leads than before',
    mend: 'import what is missing',
    troubles: { held: 'week' },
  },
  {
    prints: 'The last run used the time zone …, this one …: …',
    means: 'two machines, or cron and a shell, have different settings. `push --all` is held there',
    troubles: { held: 'zone' },
  },
  {
    prints: '… for an attempt, and no process is working on …',
    means: 'a push was killed, and no `push --resume` has run since: put one into cron',
    troubles: { waits: true },
  },
  {
    prints: 'No whole `push --all` …',
    means: "cron does not run it (look at cron's mail), or each of the last 8 days was killed, held, gave up on the receiver, or had `--limit`",
    troubles: { owed: true },
  },
] // biome-ignore format: a list

const quote = (text: string) => (text.includes('`') ? `\`\` ${text} \`\`` : `\`${text}\``)

function advise({ troubles, mend }: Row): string {
  const steps = adviseOn(troubles).map((step) => ('do' in step && mend ? { ...step, why: mend } : step))
  return tellSteps(steps)
}

const format = (rows: readonly Row[]) =>
  formatTable(
    ['it prints', 'which means', 'what to do'],
    rows.map((row) => [quote(row.prints), row.means, advise(row)]),
  )

export const formatReceiverTrouble = (): string => format(ofReceiver)
export const formatPushTrouble = (): string => format(ofPush)
