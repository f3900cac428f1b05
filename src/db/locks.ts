/** The numbers of all advisory locks, in one list so that no two are alike. */
export const locks = {
  leadsImport: 7_310_401,
  usersImport: 7_310_402,
  migration: 7_310_403,
  /** Shared: statements that begin deliveries. Exclusive: an erasure while it ends pending deliveries. */
  erasure: 7_310_404,
  /** A process that takes a duty. */
  duties: 7_310_405,
  /** Shared: transactions that store encrypted values. Exclusive: a change of their key. */
  dataKeys: 7_310_406,
  /** Shared: processes that use the embedded server. Exclusive: the process that may stop it. */
  presence: 5_323_787_447,
} as const
