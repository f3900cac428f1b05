/** Scenarios that once broke a promise, by what went wrong in them. */
import type { Manner, Scenario } from './scenario.ts'
import type { Whom } from './themes.ts'

const all = { what: 'all', force: false } as const
const settings: Scenario['settings'] = {
  ...{ timeoutMs: 1_000, retryDelayMs: 0, concurrency: 2, outageMs: 12_000, compress: 'auto' },
  ...{ leaseMs: 1_000, guard: 'on', awayMs: 30_000 },
}
/** A push as operators have it, but for the guard. */
const unguarded: Scenario['settings'] = {
  ...settings,
  ...{ retryDelayMs: 5_000, outageMs: 60_000, leaseMs: 20_000, guard: 'off' },
}
const failsFor = (whom: Whom, how: Manner): Scenario['receiver'] => {
  return [{ atMs: 0, manner: { is: 'fails for', whom, how, latencyMs: how.latencyMs } }]
}
/** A share of the attempts gets a 500; from 5 s on all of one place fail. */
const thenFailsForPlace = (share: number, how: Manner): Scenario['receiver'] => {
  const { latencyMs } = how
  return [
    { atMs: 0, manner: { is: 'mixed', share, other: 'status', status: 500, latencyMs } },
    { atMs: 5_000, manner: { is: 'fails for', whom: { by: 'place', places: ['10001'] }, how, latencyMs } },
  ]
}
const refusesPlace = (place: string | string[], status: number, latencyMs: number) =>
  failsFor({ by: 'place', places: [place].flat() }, { is: 'status', status, latencyMs })
const users = (count: number) => Array.from({ length: count }, () => ({ places: ['10001'], subscribed: true }))
const usersOf = (place: string, count: number, more: { leadsBefore?: number } = {}) =>
  Array.from({ length: count }, () => ({ places: [place], subscribed: true, ...more }))
/** By the last digit of each one's place, `-` for none. */
const usersIn = (digits: string, unsubscribed: readonly number[]) =>
  digits.split(' ').map((digit, at) => {
    return { places: digit === '-' ? [] : [`1000${digit}`], subscribed: !unsubscribed.includes(at) }
  })

export const regressions: Readonly<Record<string, Scenario>> = {
  'users whose attempts were recorded ahead and taken back, as those of one place fail, are served by the same run': {
    seed: 3,
    users: ['10001', '10002', '10003'].flatMap((place, at) =>
      Array.from({ length: [60, 66, 30][at] ?? 0 }, () => ({ places: [place], subscribed: true })),
    ),
    listings: ['10001', '10002', '10003'],
    settings: { ...unguarded, concurrency: 64, compress: 'off' },
    receiver: refusesPlace('10002', 413, 70),
    pushes: [{ ...all, atMs: 15 }],
    events: [],
  },
  'a user behind nearly all whom the receiver refuses is served by the same run': {
    seed: 1,
    users: [
      ...users(60),
      { places: ['10002'], subscribed: true },
      ...Array.from({ length: 55 }, () => ({ places: ['10002', '10003'], subscribed: true })),
    ].reverse(),
    listings: [],
    settings: { ...unguarded, concurrency: 4, compress: 'off' },
    receiver: refusesPlace('10003', 401, 40),
    pushes: [{ ...all, atMs: 3 }],
    events: [],
  },
  'users of a push that hears of a refusal from one that has nobody else are served': {
    seed: 201_528_723,
    users: usersIn('3 1 1 4 2 1 6 1 5 2 3 2 4 6 1 5 5 3 5 4 1 6 2 6 2 1 4 3 6 1 6 6 4 2 6 1', [3, 28]),
    listings: ['10002', '10006', '10002', '10006', '10002', '10002'],
    settings: { ...unguarded, concurrency: 16, outageMs: 12_000, compress: 'off' },
    receiver: refusesPlace(['10002', '10006'], 413, 64),
    pushes: [21, 3, 17].map((atMs) => ({ ...all, atMs })),
    events: [],
  },
  'of three pushes one meets nobody but users for whom the receiver fails: those behind them are served, though the others have ended':
    {
      seed: 411_023_523,
      users: usersIn(
        '7 2 2 3 7 5 5 5 5 2 4 8 2 7 3 7 1 7 5 6 5 4 2 2 6 6 8 4 6 5 7 6 4 8 6 6 1 1 2 4 5 6 6 5 6 6 8 1 3 5 1 1 1 1 2 6 2 6 2 - 4 4',
        [27, 38, 61],
      ),
      listings: [],
      settings: { ...unguarded, concurrency: 16, retryDelayMs: 0, outageMs: 600_000, leaseMs: 9_000 },
      receiver: failsFor({ by: 'order', end: 'first', count: 32 }, { is: 'page', latencyMs: 15 }),
      pushes: [12, 3, 7].map((atMs) => ({ ...all, atMs })),
      events: [],
    },
  'of two pushes one meets nobody but users whom the receiver refuses: those behind them are served, while the other waits':
    {
      seed: 500_801_527,
      users: usersIn(
        '5 2 5 - 3 4 2 7 4 5 6 8 4 8 2 2 7 6 8 7 5 8 3 3 4 6 4 2 6 4 3 4 7 1 5 4 4 4 5 2 7 7 5 6 5 3 8 4 5 3 5 1 1 5 5 3 5 5 2 3 2 3 - 2 5 2 3 2 1 2 1 7 8 5 8 6 7 8 3 3 5 6 6 8 4 4 5 1 - 8 7 2 3 8 7 4 4 5 5 2 4 1',
        [2, 3, 4, 24, 35, 40, 44, 83, 87, 90, 93, 96],
      ),
      listings: ['10005', '10005', '10008', '10003', '10008', '10005', '10003'],
      settings: { ...unguarded, concurrency: 64 },
      receiver: failsFor({ by: 'size', leadsMin: 2 }, { is: 'status', status: 404, latencyMs: 14 }),
      pushes: [4, 15].map((atMs) => ({ ...all, atMs })),
      events: [],
    },
  'a push that asks whether others had a success begins no 21st first attempt meanwhile': {
    seed: 810_001_730,
    users: usersIn(
      '1 3 3 2 1 2 - 3 - 2 1 2 2 3 2 3 1 2 3 3 2 1 2 3 1 3 3 2 2 2 1 1 1 1 1 1 1 3 3 2 3 2 2 2 2 2 3',
      [28, 44],
    ),
    listings: ['10001', '10002', '10003'],
    settings: { ...unguarded, concurrency: 16, retryDelayMs: 1_000, outageMs: 600_000, compress: 'off' },
    receiver: failsFor({ by: 'size', leadsMin: 1 }, { is: 'status', status: 413, latencyMs: 75 }),
    pushes: [16, 5, 1].map((atMs) => ({ ...all, atMs })),
    events: [],
  },
  'a push whose last attempt was recorded while it still asked whether others had a success does not sleep past its end':
    {
      seed: 720_002_391,
      users: usersIn(`${'1 '.repeat(48)}2 2 2 2 2 2`, []),
      listings: ['10002'],
      settings: { ...unguarded, concurrency: 16, outageMs: 12_000, compress: 'off', leaseMs: 60_000 },
      receiver: refusesPlace('10002', 401, 49),
      pushes: [18, 28, 27, 44].map((atMs) => ({ ...all, atMs })),
      events: [],
    },
  'a forced run whose beginning got no answer, and which was frozen then, goes on with the scope that was open': {
    seed: 1,
    users: users(1),
    listings: ['10001'],
    settings: { ...unguarded, compress: 'off' },
    receiver: [{ atMs: 0, manner: { is: 'well', latencyMs: 200, gzip: false } }],
    pushes: [{ ...all, atMs: 1 }, ...[1_000, 1_050].map((atMs) => ({ ...all, force: true, atMs }))],
    events: [
      { is: 'lose', forMs: 1, share: 1, atMs: 1, aimed: { push: 2, statement: 'start', nth: 1, lagMs: 0 } },
      { is: 'freeze', push: 2, forMs: 5_000, atMs: 1, aimed: { push: 2, statement: 'start', nth: 1, lagMs: 5 } },
    ],
  },
  'attempts that were recorded without an answer, before another server took over and while the lease was lost, are made':
    {
      seed: 500_526_666,
      users: [{ places: ['10004'], subscribed: true }],
      listings: [],
      settings: { ...settings, timeoutMs: 5_000, retryDelayMs: 5_000, concurrency: 16, outageMs: 0 },
      receiver: [{ atMs: 0, manner: { is: 'well', latencyMs: 27, gzip: false } }],
      pushes: [
        { ...all, atMs: 5 },
        { what: 'owed', atMs: 16 },
      ],
      events: [
        {
          is: 'freeze',
          push: 0,
          forMs: 3_305,
          atMs: 5,
          aimed: { push: 0, statement: 'releaseRanges', nth: 1, lagMs: 1 },
        },
        { is: 'lose', forMs: 1, share: 1, atMs: 5, aimed: { push: 0, statement: 'recordPushes', nth: 1, lagMs: 0 } },
        {
          is: 'away',
          forMs: 29,
          server: true,
          lostMs: 0,
          atMs: 5,
          aimed: { push: 0, statement: 'recordPushes', nth: 1, lagMs: 5 },
        },
      ],
    },
  'users whose first attempts time out at one moment, and are the last ones, keep their second ones for an outage': {
    seed: 1,
    users: users(60),
    listings: ['10001'],
    settings: { ...unguarded, retryDelayMs: 1_000, concurrency: 64, outageMs: 600_000 },
    receiver: [
      { atMs: 0, manner: { is: 'well', latencyMs: 62, gzip: false } },
      { atMs: 60, manner: { is: 'hangs', latencyMs: 62 } },
    ],
    pushes: [{ ...all, atMs: 7 }],
    events: [],
  },
  'first attempts before another push told of a receiver that asks for less count among the 20 that are made before another answer': {
    seed: 2_946_010,
    users: users(31),
    listings: [],
    settings: { ...settings, timeoutMs: 10_000, concurrency: 64, ratePerSecond: 8, compress: 'off', leaseMs: 9_000, awayMs: 120_000 },
    receiver: [
      { atMs: 0, manner: { is: 'status', status: 429, latencyMs: 884, retryAfter: 12 } },
      { atMs: 1_621, manner: { is: 'status', status: 403, latencyMs: 5 } },
    ],
    pushes: [
      { ...all, atMs: 760 },
      { ...all, force: true, atMs: 1_427, limit: 18 },
    ],
    events: [{ is: 'freeze', push: 0, forMs: 8_873, atMs: 777 }],
  }, // biome-ignore format: settings of a line
  'a user who is drawn, and whom the guard holds back, is told once': {
    seed: 1_011_875,
    users: [...users(1), { places: ['10002'], subscribed: true, leadsBefore: 50 }],
    listings: ['10001'],
    settings: { ...settings, timeoutMs: 5_000, compress: 'off', leaseMs: 9_000 },
    receiver: [{ atMs: 0, manner: { is: 'hangs', latencyMs: 8 } }],
    pushes: [
      { ...all, atMs: 36_938 },
      { ...all, atMs: 23 },
    ],
    events: [],
  },
  'the last users, whom one process has alone and the receiver always refuses, hold nobody else back': {
    seed: 52,
    users: [...users(32), { places: ['10002'], subscribed: true }, { places: ['10002'], subscribed: true }],
    listings: ['10001', '10001', '10001'],
    settings: { ...unguarded, concurrency: 16, compress: 'gzip' },
    receiver: refusesPlace('10002', 422, 32),
    pushes: [17, 13, 23].map((atMs) => ({ ...all, atMs })),
    events: [],
  },
  'a user who was held back, and is left to nobody in the end, is counted': {
    seed: 379,
    users: [...users(5), { places: ['10001'], subscribed: true, leadsBefore: 100 }],
    listings: ['10001', '10001', '10001', '10001', '10001'],
    settings,
    receiver: [{ atMs: 0, manner: { is: 'well', latencyMs: 63 } }],
    pushes: [
      { ...all, atMs: 755 },
      { ...all, atMs: 14 },
      { ...all, atMs: 1_974 },
      { what: 'failed', ends: ['failed', 'unknown'], atMs: 29 },
    ],
    events: [{ is: 'away', forMs: 11_293, server: true, lostMs: 0, atMs: 34 }],
  },
  'an end that an erasure made between two tries of a statement is told once': {
    seed: 999,
    users: users(1),
    listings: ['10001', '10001', '10001', '10001', '10001', '10001', '10001'],
    settings: { ...settings, timeoutMs: 10_000, ratePerSecond: 11 },
    receiver: [{ atMs: 0, manner: { is: 'breaks', latencyMs: 4 } }],
    pushes: [
      { ...all, atMs: 280 },
      { ...all, atMs: 17 },
    ],
    events: [
      { is: 'lose', forMs: 90, share: 0.5, atMs: 294 },
      { is: 'erase', atMs: 378, listings: [0] },
    ],
  },
  'an end that an erasure made while the process was frozen is told once': {
    seed: 628920,
    users: [
      { places: ['10003'], subscribed: true },
      { places: ['10004'], subscribed: true },
      { places: ['10001'], subscribed: true },
    ],
    listings: ['10005', '10006', '10001'],
    settings: { ...settings, timeoutMs: 5_000, retryDelayMs: 5_000 },
    receiver: [{ atMs: 0, manner: { is: 'hangs', latencyMs: 12 } }],
    pushes: [{ ...all, force: true, atMs: 520, accept: false }],
    events: [
      { is: 'freeze', push: 0, forMs: 1_833, atMs: 612 },
      { is: 'erase', atMs: 2_313, listings: [2] },
    ],
  },
  'a first attempt that another process took over while its own was frozen counts as none of its second ones': {
    seed: 2_018_319,
    users: usersIn('- 4 2 3 6 1 4 4 1 3 3 2 5 2 6 2 6 2 6 - 1 3 5 4', [3, 15]),
    listings: [],
    settings: { ...settings, timeoutMs: 5_000, retryDelayMs: 100, concurrency: 16 },
    receiver: [{ atMs: 0, manner: { is: 'status', status: 503, latencyMs: 16, retryAfter: 2 } }],
    pushes: [
      { ...all, atMs: 798 },
      { ...all, atMs: 26 },
      { what: 'resume', atMs: 5_851 },
      { what: 'user', user: 3, owedOnly: true, atMs: 16 },
    ],
    events: [{ is: 'freeze', push: 1, forMs: 850, atMs: 3_597 }],
  },
  'a receiver that refused two by chance, and then takes some, is in no trouble that was known': {
    seed: 2_030_504,
    users: [
      { places: ['10004'], subscribed: true },
      { places: ['10005'], subscribed: true },
    ],
    listings: [],
    settings: {
      ...settings,
      timeoutMs: 10_000,
      retryDelayMs: 100,
      concurrency: 16,
      compress: 'off',
      leaseMs: 20_000,
      guard: 'off',
      awayMs: 120_000,
    },
    receiver: [
      { atMs: 0, manner: { is: 'mixed', share: 0.6, latencyMs: 3, gzip: false, other: 'status', status: 400 } },
    ],
    pushes: [
      { ...all, atMs: 14 },
      { ...all, atMs: 1 },
      { ...all, force: true, atMs: 13_813 },
    ],
    events: [],
  },
  'a push that was planned while its records were looked for, and are gone, ends': {
    seed: 47,
    users: users(24),
    listings: [],
    settings: { ...settings, timeoutMs: 10_000, concurrency: 16, leaseMs: 60_000, awayMs: 120_000 },
    receiver: [{ atMs: 0, manner: { is: 'hangs', latencyMs: 3 } }],
    pushes: [{ ...all, atMs: 13 }],
    events: [
      { is: 'away', forMs: 11_608, server: false, lostMs: 0, atMs: 40 },
      { is: 'away', forMs: 68, server: true, lostMs: 297, atMs: 68 },
    ],
  },
  'a push whose records are lost says so, even if its last statement gets no answer': {
    seed: 600_015_260,
    users: [{ places: ['10003'], subscribed: true }],
    listings: [],
    settings: { ...settings, concurrency: 16, outageMs: 0, compress: 'gzip', awayMs: 120_000 },
    receiver: [{ atMs: 0, manner: { is: 'limited', ratePerSecond: 21, burst: 13, latencyMs: 4, retryAfter: 1 } }],
    pushes: [{ ...all, force: true, atMs: 580, accept: false }],
    events: [
      { is: 'unsubscribe', user: 0, atMs: 1 },
      { is: 'lose', forMs: 1_910, share: 0.2, atMs: 1 },
      { is: 'away', forMs: 11, server: true, lostMs: 356, atMs: 1_156 },
    ],
  },
  'an outage that begins as other pushes have their last successes costs nobody both attempts': {
    seed: 930_519_155,
    users: usersIn(
      '1 2 1 - 1 2 1 2 2 2 2 - 1 2 2 2 2 1 2 2 1 2 1 2 - 2 2 2 1 2 1 1 2 1 2 1 1 2 2 2 2 1 1 2 2 2 1 1 1 1 1 2 1 1 1 1 2 1 2 2 1 2 1 1 1 2 1 1 1 1 1 1 2 1 1 2 1 2 2 2 2 2 1 2 1 1 2 2',
      [1, 21, 55, 57],
    ),
    listings: [],
    settings: { ...settings, retryDelayMs: 1_000, concurrency: 16, outageMs: 60_000, leaseMs: 20_000, guard: 'off' },
    receiver: [
      { atMs: 0, manner: { is: 'well', latencyMs: 74, gzip: false } },
      { atMs: 79, manner: { is: 'status', status: 503, latencyMs: 74 } },
    ],
    pushes: [18, 2, 23].map((atMs) => ({ ...all, atMs })),
    events: [],
  },
  'a draw finds others behind users whom the guard holds': {
    seed: 1,
    users: Array.from({ length: 61 }, (_, at) => [
      ...usersOf(String(10_001 + 2 * at), at < 60 ? 6 : 40),
      ...usersOf(String(10_002 + 2 * at), at < 60 ? 6 : 60),
      ...usersOf(String(10_002 + 2 * at), at < 60 ? 4 : 40, { leadsBefore: 100 }),
    ]).flat(),
    listings: Array.from({ length: 122 }, (_, at) => String(10_001 + at)),
    settings: { ...unguarded, guard: 'on', timeoutMs: 10_000, concurrency: 1 },
    receiver: refusesPlace(
      Array.from({ length: 61 }, (_, at) => String(10_001 + 2 * at)),
      401,
      5,
    ),
    pushes: [{ ...all, atMs: 10 }],
    events: [],
  },
  'an outage that another push sees end, as everybody is refused now, is over for one that waits': {
    seed: 1,
    users: users(150),
    listings: ['10001'],
    settings: { ...unguarded, concurrency: 64, compress: 'off' },
    receiver: [
      { atMs: 0, manner: { is: 'well', latencyMs: 5 } },
      { atMs: 40, manner: { is: 'breaks', latencyMs: 500 } },
      { atMs: 5_000, manner: { is: 'status', status: 403, latencyMs: 20 } },
    ],
    pushes: [
      { ...all, atMs: 1 },
      { ...all, force: true, limit: 24, atMs: 5_100 },
    ],
    events: [],
  },
  'where second attempts are left, and those of one place get pages, they are drawn, and the others served': {
    seed: 11,
    users: [...usersOf('10001', 87), ...usersOf('10002', 91)],
    listings: ['10001'],
    settings: { ...unguarded, retryDelayMs: 1_000, concurrency: 16, compress: 'off' },
    receiver: thenFailsForPlace(0.5, { is: 'page', latencyMs: 16 }),
    pushes: [
      { ...all, atMs: 1 },
      { ...all, atMs: 5_010 },
    ],
    events: [{ is: 'stop', push: 0, atMs: 220 }],
  },
  'one that waits for the end of an outage of some users, which others have seen, meets the others in its patience': {
    seed: 1_130_422_488,
    users: usersIn(
      '1 2 1 1 2 2 1 1 2 2 1 2 1 2 1 2 2 1 2 2 - 1 2 1 2 1 2 1 1 1 2 1 2 1 1 1 1 2 2 2 1 2 2 2 2 1 2 2 1 1 1 1 2',
      [8, 33],
    ),
    listings: ['10001', '10002', '10002'],
    settings: { ...unguarded, concurrency: 1, compress: 'off' },
    receiver: thenFailsForPlace(0.5, { is: 'hangs', latencyMs: 15 }),
    pushes: [0, 5_001, 5_025, 5_006].map((atMs) => ({ ...all, atMs })),
    events: [{ is: 'stop', push: 0, atMs: 142 }],
  },
  'pushes for which another has left no users make first attempts of its users before second ones show an outage': {
    seed: 738,
    users: usersIn('3 1 1 2 1 1 1 1 1 2 2 2 2 1 3 2 2 1 3 1 3 2 2', []),
    listings: ['10001', '10002', '10003'],
    settings: { ...unguarded, concurrency: 1, outageMs: 12_000, compress: 'off' },
    receiver: thenFailsForPlace(0.7, { is: 'hangs', latencyMs: 39 }),
    pushes: [0, 5_009, 5_028, 5_023].map((atMs) => ({ ...all, atMs })),
    events: [{ is: 'stop', push: 0, atMs: 230 }],
  },
  'a push that gives up counts the users whose delivery an earlier one began, and whom neither came to': {
    seed: 5,
    users: users(140),
    listings: ['10001'],
    settings: { ...unguarded, concurrency: 64, outageMs: 12_000, compress: 'off' },
    receiver: [
      { atMs: 0, manner: { is: 'mixed', share: 0.5, other: 'hangs', status: 500, latencyMs: 20 } },
      { atMs: 300, manner: { is: 'status', status: 500, latencyMs: 30 } },
    ],
    pushes: [0, 50_000].map((atMs) => ({ ...all, atMs })),
    events: [{ is: 'stop', push: 0, atMs: 100 }],
  },
  'a process that is killed as a 415 reaches it tells nobody of it': {
    seed: 740_526_283,
    users: [['10001'], ['10002'], ['10005'], ['10005', '10001']].map((places) => ({ places, subscribed: true })),
    listings: ['10005', '10001', '10001'],
    settings: { ...settings, retryDelayMs: 1_000, concurrency: 1 },
    receiver: [{ atMs: 0, manner: { is: 'plain alone', latencyMs: 9, gzip: true } }],
    pushes: [{ ...all, force: true, atMs: 25_524, accept: false }],
    events: [{ is: 'kill', push: 0, atMs: 25_569 }],
  },
  'a run that records its end once more, as the answer was lost, ended the first time': {
    seed: 1_030_729_369,
    users: [{ places: ['10003'], subscribed: true }],
    listings: [],
    settings: { ...settings, timeoutMs: 5_000, concurrency: 16, outageMs: 0 },
    receiver: [
      { atMs: 0, manner: { is: 'mixed', share: 0.9, latencyMs: 40, gzip: false, other: 'unreachable', status: 409 } },
    ],
    pushes: [
      { ...all, atMs: 8 },
      { ...all, force: true, atMs: 348 },
      { ...all, force: true, atMs: 547 },
    ],
    events: [{ is: 'lose', forMs: 8, share: 1, atMs: 1, aimed: { push: 1, statement: 'end', nth: 1, lagMs: 0 } }],
  },
  'a process that was frozen while two statements were lost goes on': {
    seed: 600_062_153,
    users: [{ places: ['10002'], subscribed: true }],
    listings: [],
    settings: { ...settings, timeoutMs: 10_000, concurrency: 16, leaseMs: 9_000, awayMs: 2_000 },
    receiver: [
      { atMs: 0, manner: { is: 'mixed', share: 0.3, latencyMs: 34, gzip: false, other: 'status', status: 503 } },
    ],
    pushes: [{ ...all, atMs: 8, accept: false }],
    events: [
      { is: 'freeze', push: 0, forMs: 9_244, atMs: 1, aimed: { push: 0, statement: 'countOfPass', nth: 1, lagMs: 3 } },
      { is: 'lose', forMs: 26, share: 1, atMs: 1, aimed: { push: 0, statement: 'recordDue', nth: 1, lagMs: 0 } },
    ],
  },
}
