/**
 * The temporary tables of an import. They are made once a transaction, and each of its files finds them empty: a table for each file would
 * hold its locks to the end, and the server has room for a few thousand.
 */
import type { Connection } from '../db/transaction.ts'
import { mergedLeads, stagedLeads } from './staged-leads.ts'

/** The listings that the files have; it is filled by all files of a transaction. */
export const presentLeads = 'present_leads'

/** Long values are not compressed, and stay in their row if they fit: each is written once and read once. */
const statements = `
  create temp table ${stagedLeads.definition} with (toast_tuple_target = 8160) on commit drop;
  alter table staged_leads alter json set storage external, alter raw set storage external, alter search set storage external;
  create temp table matched_leads (
    n integer not null, lead_id bigint not null, version_id bigint, same boolean not null, filled smallint not null,
    given integer not null, placed boolean not null
  ) on commit drop;
  create temp table changed_leads (
    bucket bigint not null, staged tid not null, n integer not null, lead_id bigint not null, version_id bigint
  ) on commit drop;
  create index on changed_leads (bucket);
  create temp table ${mergedLeads.definition} on commit drop;
  alter table merged_leads alter json set storage external, alter search set storage external;
  create temp table rejected_hrefs (href_sha256 bytea not null, is_own boolean not null) on commit drop;
  create temp table ${presentLeads} (lead_id bigint not null, given integer not null) on commit drop`

export async function createLeadStaging(connection: Connection): Promise<void> {
  await connection.query(statements)
}
