/**
 * Writes the responses to consumer deletion lists: a file to upload for each, with the status of every work item. The lists are read
 * again for it, so that memory holds a page of them.
 */
import { randomBytes } from 'node:crypto'
import { accessSync, constants, realpathSync, statSync } from 'node:fs'
import { open, rename, rm } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { sql } from 'kysely'
import { codeOf, LeadpushError, messageOf } from '../../base/errors.ts'
import type { Database } from '../../db/open.ts'
import { type DropFile, readWorkItems, type WorkItem } from '../../leads/drop-files.ts'
import { responseHeader, responseLine, statusCodes } from '../../leads/drop-format.ts'
import { findKey, markOfListHash } from '../../leads/marks.ts'

/** A response as it was written. */
export interface Response {
  /** Its path. */
  file: string
  deleted: number
  notFound: number
}

/** Throws `usage` where responses to `files` cannot be written into `folder`, or would take the place of a list or of each other. */
export function checkResponses(folder: string, files: readonly DropFile[]): void {
  const refuse = (why: string) => new LeadpushError('usage', `--response ${folder}: ${why}`)
  try {
    if (!statSync(folder).isDirectory()) throw refuse('is no folder')
    accessSync(folder, constants.W_OK)
  } catch (error) {
    if (error instanceof LeadpushError) throw error
    throw refuse(codeOf(error) === 'ENOENT' ? 'there is no such folder' : `cannot be written to (${codeOf(error)})`)
  }
  // a link elsewhere may lead to a list here
  const placesOf = (name: string) => [realpathSync(dirname(name)), dirname(realpathSync(name))]
  const inFolder = files.find(({ name }) => placesOf(name).includes(realpathSync(folder)))
  if (inFolder)
    throw refuse(`has the list ${basename(inFolder.name)}, and a response has its name: name another folder`)
  const names = files.map(({ name }) => basename(name))
  const twice = names.find((name, at) => names.indexOf(name) !== at)
  if (twice !== undefined) throw refuse(`two lists have the name ${twice}, and so would their responses`)
}

/** Whether something was erased for each of the items, now or before. */
async function findDeleted(db: Database, key: Buffer, items: readonly WorkItem[]): Promise<ReadonlySet<number>> {
  const marks = Buffer.concat(items.map(({ kind, hash }) => markOfListHash(key, kind, hash)))
  const { rows } = await sql<{ at: number }>`
    select at from generate_series(1, ${items.length}::integer) as c (at)
      cross join lateral (select substring(${marks}::bytea from (at - 1) * 32 + 1 for 32) as mark offset 0) m
    where exists (select from erasures e where e.mark = m.mark and e.found offset 0)
      or exists (select from erasures e where e.list_mark = m.mark and e.found offset 0)
  `.execute(db)
  return new Set(rows.map(({ at }) => at - 1))
}

/** Undefined where the list has no work items: then there is nothing to respond. */
async function writeResponse(db: Database, key: Buffer, folder: string, list: DropFile): Promise<Response | undefined> {
  const file = join(folder, basename(list.name))
  const temporary = join(folder, `.${basename(list.name)}.${randomBytes(6).toString('hex')}`)
  const response = { file, deleted: 0, notFound: 0 }
  const written = await open(temporary, 'wx', 0o600)
  try {
    await written.write(responseHeader)
    for await (const items of readWorkItems(list)) {
      const deleted = items.length > 0 ? await findDeleted(db, key, items) : new Set<number>()
      const lines = items.map(({ id }, at) =>
        responseLine(id, deleted.has(at) ? statusCodes.deleted : statusCodes.notFound),
      )
      await written.write(lines.join(''))
      response.deleted += deleted.size
      response.notFound += items.length - deleted.size
    }
    if (response.deleted + response.notFound === 0) return undefined
    await written.sync()
    await rename(temporary, file)
    return response
  } finally {
    await written.close()
    await rm(temporary, { force: true })
  }
}

/**
 * Writes the responses into `folder`; lists of removed identifiers, and empty ones, need none. A reader sees a whole file or none. Throws
 * `failed` where one cannot be written.
 */
export async function writeResponses(db: Database, folder: string, files: readonly DropFile[]): Promise<Response[]> {
  const key = await findKey(db)
  const responses: Response[] = []
  for (const list of files) {
    if (list.type === 'Removed') continue
    const response = await writeResponse(db, key, folder, list).catch((error) => {
      if (error instanceof LeadpushError || codeOf(error) === undefined) throw error
      throw new LeadpushError('failed', `--response ${folder}: cannot be written to (${messageOf(error)})`)
    })
    if (response) responses.push(response)
  }
  return responses
}
