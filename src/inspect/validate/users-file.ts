/** Checks a file of users for `validate`: whether `users import` would take each user into an empty database. */
import { buildPlaces } from '../../places/places.ts'
import type { RecordPage } from '../../records/read-records.ts'
import type { ReadRecord } from '../../records/record.ts'
import { serialiseProblem } from '../../records/staged-rejects.ts'
import type { ParsedLine } from '../../users/csv-line.ts'
import { GatheredUser } from '../../users/gather-lines.ts'
import { serialiseQuery } from '../../users/query.ts'
import { UserReader, type UserReadOptions } from '../../users/read-user.ts'
import { Resolver } from '../../users/stage.ts'
import type { UserPatch } from '../../users/user.ts'
import type { Finding } from '../finding.ts'
import { type RecordsCheck, tellIgnored } from './leads-file.ts'

/** The most users of CSV that are put together from their lines, which bounds memory. The lines of further users are judged one by one. */
const gatheredMax = 100_000
const withoutKey = 'is missing: only a user who is known already may leave it out'

/** Yields a problem for each user that an import would reject, and a note for each field that it ignores. */
export class UsersCheck implements RecordsCheck {
  private readonly name: string
  private readonly reader: UserReader
  /** The words of a query do not depend on the places that it names. */
  private readonly resolver = new Resolver(buildPlaces(''))
  private readonly users = new Map<string, GatheredUser>()
  private further = 0

  constructor(name: string, options: UserReadOptions) {
    this.name = name
    this.reader = new UserReader(options)
  }

  *check(page: RecordPage): Generator<Finding> {
    this.reader.look(page)
    for (const record of page.records) {
      const parsed = this.judge(this.reader.read(record), page.header !== undefined)
      const { email } = parsed
      if (page.header && email !== undefined && (this.users.has(email) || this.users.size < gatheredMax)) {
        this.gather(email, record, parsed)
        continue
      }
      if (page.header && email !== undefined) this.further++
      if (!('user' in parsed)) yield this.problem(record.line, parsed)
      else if (!page.header && parsed.user.receiverApiKey === undefined)
        yield this.problem(record.line, { path: 'receiverApiKey', message: withoutKey })
    }
  }

  *finish(): Generator<Finding> {
    yield* this.notes(this.reader.finish())
    const lack = this.reader.withoutKeys
    if (lack) throw lack
    for (const user of this.users.values()) {
      if (user.told) yield this.problem(user.line, user.told)
      else if (!user.hasKey) yield this.problem(user.line, { path: 'receiverApiKey', message: withoutKey })
    }
    if (this.further > 0) {
      yield this.note(
        '',
        `more than ${gatheredMax} users: ${this.further} lines of further ones were judged each by itself`,
      )
    }
    for (const [field, told] of tellIgnored(this.reader.ignored, 'a user')) yield this.note(field, ...told)
  }

  /** A query that can match nothing is refused, as by an import. */
  private judge(parsed: ParsedLine, isLine: boolean): ParsedLine {
    const queries = 'user' in parsed ? parsed.user.queries : undefined
    const home = queries && this.resolver.findHome(queries)
    if (!home || !('message' in home)) return parsed
    return { path: isLine ? 'value' : home.path, message: home.message, email: parsed.email }
  }

  private gather(email: string, { line }: ReadRecord, parsed: ParsedLine): void {
    const known = this.users.get(email)
    const { receiverApiKey, subscribed, queries }: Partial<UserPatch> = 'user' in parsed ? parsed.user : {}
    const row = {
      ...{ n: 0, line, email, home_key: null },
      receiver_key: receiverApiKey ?? null,
      subscribed: subscribed ?? null,
      queries: queries?.map(serialiseQuery) ?? null,
      problem: 'user' in parsed ? null : serialiseProblem(parsed),
    }
    const user = known ?? new GatheredUser(row)
    if (!known) this.users.set(email, user)
    user.add(row)
  }

  private problem(line: number, { path, message }: { path: string; message: string }): Finding {
    return { level: 'problem', code: 'users', where: `${this.name}:${line}`, path, what: message }
  }

  private *notes(messages: readonly string[]): Generator<Finding> {
    for (const message of messages) yield this.note('', message)
  }

  private note(path: string, what: string, toDo?: string): Finding {
    return { level: 'note', code: 'users', where: this.name, path, what, toDo }
  }
}
