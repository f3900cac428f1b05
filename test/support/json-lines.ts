/**
 * What commands print with `--json`: the fields of each line, and what they mean. A test holds the commands to it;
 * docs/reference/json.md is written from it.
 */

export interface Line {
  /** Undefined: the line has no `type`. */
  type?: string
  /** Whose fields it has too: those of a line of a push, or of a lead. */
  like?: 'delivery' | 'summary' | 'lead'
  /** With `?` a field is there only if it has something to say. */
  fields: readonly string[]
}

/** `fields` as text, a blank between two of them. */
const line = (type: string | undefined, fields: string, like?: Line['like']): Line => ({
  ...(type !== undefined && { type }),
  ...(like && { like }),
  fields: fields.split(' '),
})

/** Those of a push, and of what shows one. */
export const pushLines = {
  delivery: line(
    'delivery',
    'user kind idempotencyKey period part parts queries leads bytes status attempts httpStatus error',
  ),
  skip: line('skip', 'user? reason'),
  warning: line('warning', 'user href message'),
  summary: line(
    'summary',
    'period users deliveries delivered failed unknown skipped already elsewhere owed leads bytes seconds allowedPerSecond? sameHouse?',
  ),
}
const push: readonly Line[] = Object.values(pushLines)

const shown = line('delivery', 'createdAt attemptLog', 'delivery')
const rejected = line('rejected', 'file line path message')
const several = [line('unknown', 'email'), line('ended', 'deliveries')]
const removed = line('user', 'email removed ended? hooks dryRun? queries? pending? owed? integrations? triggers?')
const created = line(undefined, 'id user apiKey signingSecret')
const found = 'code where path message hint?'

/** By command. */
export const jsonLines: Readonly<Record<string, readonly Line[]>> = {
  demo: push,
  push: [...push.slice(0, -1), line('summary', 'advice?', 'summary')],
  preview: [
    ...push.slice(0, -1),
    line('summary', 'leadsPerUser?', 'summary'),
    ...[line('new', 'href'), line('changed', 'href fields'), line('gone', 'href')],
    line('diff', 'user period against new changed gone unchanged'),
  ],
  'deliveries list': [line('delivery', 'firstAt lastAt durationMs cause doubtful', 'delivery')],
  'deliveries show': [shown],
  status: [
    line(
      'status',
      'period subscribed delivered failed unknown owed lastRun hooksInTrouble pending stuck doubtful held? refused? down? lost? sources? findings advice',
    ),
    shown,
  ],
  'leads import': [
    rejected,
    line(
      'summary',
      'read inserted updated unchanged rejected repeated erased filtered gone unplaced unreadable ignored unnamed? examples? dryRun?',
    ),
  ],
  'users import': [
    rejected,
    line(
      'summary',
      'read inserted updated unchanged rejected repeated erased folded unsubscribed ignored unnamed? dryRun?',
    ),
  ],
  'leads list': [line('lead', 'lastSeenAt sources', 'lead')],
  'leads show': [
    line('lead', 'lastSeenAt sources gone importedAt versions moreVersions place users usersComplete', 'lead'),
  ],
  'leads count': [line('count', 'leads sameHouse?')],
  'leads forget': [
    line(
      'forget',
      'dryRun newlyRefused listings redacted versions triggers ended anew underWay sent sentComplete untidied? read? added? rejected? removed?',
    ),
    line('response', 'file deleted notFound'),
  ],
  'users list': [line('user', 'email subscribed queries')],
  'users export': [line(undefined, 'email receiverApiKey? subscribed queries')],
  'users show': [
    line('user', 'email subscribed createdAt queries period servedAt owed held moreDeliveries integrations deliveries'),
  ],
  'users subscribe': [
    line('user', 'email subscribed was'),
    ...push,
    line('unknown', 'email'),
    line('users', 'subscribed already unknown'),
  ],
  'users unsubscribe': [
    line('user', 'email unsubscribed ended? was?'),
    ...several,
    line('users', 'unsubscribed already unknown'),
  ],
  'users remove': [removed, ...several, line('users', 'removed known? unknown')],
  // with --dry-run those of `users remove`
  'users forget': [
    line('user', 'email forgotten was ended? hooks'),
    ...several,
    line('users', 'forgotten already unknown'),
  ],
  'integrations create': [created],
  'integrations rotate': [created],
  'integrations list': [line('integration', 'id user createdAt hooks')],
  'integrations revoke': [line('integration', 'id user revoked hooks')],
  trigger: [
    line('trigger', 'trigger integration hook href webhookId status attempts httpStatus error'),
    line('summary', 'due delivered failed abandoned removed ended dropped waiting left seconds'),
  ],
  explain: [
    line(
      'explanation',
      'user href period answer subscribed servedAt owed held postalCode postalKey importedAt seenAt ageSeconds deliverableUntil tooOld gone sources queries planned sameHouse tooLarge deliveries untold more',
    ),
  ],
  report: [line('report', 'file bytes period seconds findings')],
  validate: [
    ...['problem', 'note', 'skipped'].map((type) => line(type, found)),
    line('summary', 'problems notes files? records? checks? users? subscribed? queries? hooks? leads?'),
  ],
  settings: [line('setting', 'name value from by set secret host')],
  'settings rekey': [line('rekey', 'receiverKeys signingSecrets damaged')],
  migrate: [line('migrate', 'applied receiverKeys signingSecrets damaged')],
  prune: [
    line(
      'prune',
      'dryRun? deliveries claims runs workers leads versions events imports searches triggers receiverDeliveries indexes rebuilt?',
    ),
  ],
  probe: [
    line('check', 'check title clause sent grade received advice seconds'),
    line('summary', 'grade checks passed warned failed notVisible requests probe seconds'),
  ],
  receiver: [
    line(
      'request',
      'at status msg idempotencyKey dataSource user bytes durationMs queries leads applied times problems fault',
    ),
  ],
  ...Object.fromEntries(['db path', 'db url', 'db stop'].map((name) => [name, [line('db', 'path? url? state?')]])),
  'db backup': [line('backup', 'file bytes tables rows seconds')],
  'db restore': [line('restore', 'home rows madeAt version postgres seconds')],
}

/** The fields whose names do not say all, of the lines of these commands. */
export const meanings: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  'push, preview, demo, deliveries list, deliveries show': {
    kind: '`weekly`, `forced`, `single` or `subscription`',
    period: 'that of its run',
    status:
      '`delivered`; `failed`: no attempt succeeded, and none may have arrived; `unknown`: none succeeded, and at least one [may have arrived](../contract-delivery.md#at-most-twice); `pending`: an attempt is still to come; in a preview `planned`. An outcome that comes late is still recorded, and a success makes the delivery `delivered`',
    error: 'one line without secrets',
    idempotencyKey: 'null for a delivery that is not begun; it has 0 `attempts`',
    httpStatus: 'null in a preview',
    user: 'of a skip: left out where a whole run is held back; such a line counts nobody',
    'users, skipped, already, elsewhere, owed':
      'count users, the others deliveries. `already` had their weekly delivery before, and have no line; `elsewhere` are claimed by another process; `owed` are not served by this run',
    href: 'of a `--diff`: null if the listing is no longer stored',
    against: '`{"period","createdAt","idempotencyKeys"}`; null if no weekly delivery arrived yet',
    attemptLog: 'a list of `{"at","durationMs","httpStatus","error","answer"}`',
  },
  'status, push, report, validate': {
    lastRun:
      '`{"command","period","startedAt","endedAt","outcome"}`; its `outcome` is `running`, `complete`, `failures`, `stopped`, `interrupted` or `lost`',
    doubtful: 'counts users (4.5)',
    advice:
      'what is to be done, in its order: `{"do","why"}`, where `do` is `mend receiver`, `mend import`, `mend users`, `mend zone` or `mend cause`; or `{"run":["push",…],"why","or"?}`, where `or` is another command and when it suits: `{"run","when"}`',
    sources: 'if listings have sources: a list of `{"source","importedAt","completedAt","live":N,"gone":N,"tooOld":N}`',
    findings:
      'those of `validate`, one for each [alarm](../contract.md#alarms). Their `code` stays when words change; `hint` says what to do. Of `problem`, `note` and `skipped` (not possible yet) only a problem changes the exit code',
  },
  'leads import, users import': {
    line: 'where the rejected record begins: in an array its number, in CSV of users the line that is wrong',
    read: 'the sum of the counts up to `filtered` or `folded`; a summary is of all files',
    repeated: 'a later record of the file has the same `href` or e-mail',
    erased: 'kept out by `forget`',
    filtered: 'left out by `--where`',
    folded: 'repeated queries (4.11)',
    'gone, unplaced, unreadable, ignored, unsubscribed':
      'stand beside that sum, and change no exit code: listings that no source has any more, or whose postal code is unknown; `{"field":N}` of values that cannot be read, and of unknown fields; users',
    examples:
      'the first of each `unreadable` field, and of the unplaced as `postalCode`: `{"file","line","message","value"}`',
    unnamed: 'so many rejected records name nobody, so nobody was taken away',
  },
  'leads show, leads forget, users show, trigger': {
    versions: 'a list of `{"since","changes":[{"field","from","to"}]}`',
    users: 'a list of `{"email","subscribed","query"}`',
    'added, rejected, removed':
      'of a list of contacts: not refused before; neither a URL nor a contact; no longer refused',
    untidied: 'tables that could not be vacuumed',
    owed: '`weekly`, `subscription` or null',
    deliveries: 'the last 20; no line of a user has a key',
    status: 'of a trigger: `delivered`, `failed` (tried again later), `abandoned` or `removed` (410)',
    waiting: 'counts due triggers whose hooks have a pause',
  },
  'integrations list': {
    hooks: 'a list of `{"id","url","triggers","createdAt","lastStatus","lastAt","dropped","abandoned","offSince"}`',
  },
}
