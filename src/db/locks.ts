/** The numbers of the advisory locks, so that no two are alike: whoever holds one keeps the others of its kind waiting. */
export const locks = {
  leadsImport: 7_310_401,
  usersImport: 7_310_402,
  migration: 7_310_403,
  /** Shared: a statement that begins deliveries; alone: an erasure, while it ends those that are begun. */
  erasure: 7_310_404,
  /** With a number of the group: whoever looks what is due for these hooks. */
  look: 7_310_405,
  /** Shared: a process that uses the embedded server; alone: whoever may stop it. */
  presence: 5_323_787_447,
} as const
