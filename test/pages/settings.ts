/** The table of settings, a generated part of docs/reference/settings.md: defaults and allowed values from the program, meanings from here. */
import { definitions, type SettingName } from '../../src/base/config.ts'
import { formatTable } from './table.ts'

const meanings: Record<SettingName, string> = {
  databaseUrl: '[the database](#the-database); without it the embedded one',
  home: "where the embedded database lives. Without it `$XDG_DATA_HOME/leadpush`, as root `/var/lib/leadpush`, else `~/.local/share/leadpush`. The folder is this account's alone: if it is a link, belongs to another or is open to others, nothing connects (exit 3). `db url` needs a path of at most 82 bytes",
  receiverUrl: 'where deliveries are posted, unchanged; `push` needs it',
  clientCert:
    'the client certificate, or a chain that begins with it, for a receiver behind mutual TLS. Hooks and pings never see it',
  clientKey: 'the key of that certificate: both or none',
  dataSource: 'the header `X-Data-Source`',
  automation: "the platform's name in the paths of the endpoints: `/api/extern/zapier/test`",
  concurrency: 'how many requests a process has under way at once; also `--concurrency`',
  ratePerSecond: 'attempts a second that a process makes at most, evenly spaced; also `--rate`',
  timeoutMs: 'the time for one attempt, from connecting to the end of the answer',
  retryDelayMs:
    'the pause before the second attempt; a longer `Retry-After` is honoured, up to 5 minutes. No other user waits for it',
  outageMs:
    'how long a push waits for a receiver that is down; `0s`: it looks for no outage ([4.12](../contract-delivery.md#a-receiver-in-trouble))',
  keepAnswers: 'keeps and shows the words with which a receiver or a hook refused',
  compress:
    "deliveries with `Content-Encoding: gzip`. `auto`: once the receiver's answer says `Accept-Encoding: gzip`; `gzip`: always",
  leaseMs: 'how long other processes leave alone the users of a dead or frozen process',
  guard: 'holds back a weekly push that looks wrong ([the guard](../operate.md#the-guard))',
  maxLeadAgeMs: 'a listing that no import had for longer is not delivered',
  sameHouse:
    'whether each listing of a house is sent, or only the one that was imported first ([4.20](../contract-delivery.md#files-erasures-houses)). Machines that share a database should agree on it',
  feedMaxAgeMs:
    '`status --check` alarms if no import of listings finished for longer, or none with a source that has listings',
  databaseAwayMs:
    'how long a command that writes waits for a database that is away ([an absence](#an-absence-of-the-database))',
  timeZone: 'where the week turns; [the same on all machines](#the-time-zone)',
  host: 'where `serve` and `receiver` listen; also `--host`',
  port: 'on which port `serve` and `receiver` listen; 0 takes a free one; also `--port`',
  limitAddress:
    'how many bad requests (answers 401 and 422) a minute one address, or IPv6 /64, may make. Keys that were good in the last hour still get through',
  limitKey: 'how many requests a minute one API key may make',
  trustProxy: 'addresses of your proxies. The caller is the last entry of `X-Forwarded-For` that is not one of these',
  hookHosts:
    'the only hosts that hook URLs may have, checked at `subscribe` and at every connection; without it any public one',
  secretKey: 'encrypts receiver keys and signing secrets in the database ([how](../encryption.md))',
  allowInsecureHooks: 'lets hook URLs be `http:` and lead to private addresses; for development only',
  logFormat:
    'the form of [diagnostics](../monitor.md#logs). Without it `serve` writes JSON unless it runs on a terminal, other commands text',
  pingUrl: "[a dead man's switch](../monitor.md#pings) of a whole `push --all`",
  pingBody: 'whether pings carry the summary',
}

/** What an error says is allowed, in the short form of a table. */
function allowedOf(key: SettingName): string {
  // no setting takes a NUL
  const refused = definitions[key].schema.safeParse('~ \0')
  if (refused.success) throw new Error(`${definitions[key].name} takes anything`)
  const words = refused.error.issues[0]?.message ?? ''
  return words
    .replace(/^a (?:whole )?number (?:with a unit \(.*?\) )?from (\S+) to ([^\s,]+)(?:, such as [^\s,]+)?/, '$1 to $2')
    .replace(/^\w+(?: or \w+)+$/, (names) =>
      names
        .split(' or ')
        .map((name) => `\`${name}\``)
        .join(', '),
    )
}

export const formatSettings = (): string =>
  formatTable(
    ['name', 'default', 'allowed', 'meaning'],
    (Object.keys(definitions) as SettingName[]).map((key) => {
      const { name, fallback } = definitions[key] as { name: string; fallback?: string }
      return [`\`${name}\``, fallback === undefined ? '' : `\`${fallback}\``, allowedOf(key), meanings[key]]
    }),
  )
