/** Checks every hook for `validate`: its URL must be allowed (contract 5.2), and its host must resolve now. */
import { LRUCache } from 'lru-cache'
import type { Database } from '../../db/open.ts'
import { checkHookUrl, findUrlProblem, type HookRules, hookRulesOf } from '../../integrations/hook-address.ts'
import type { Finding, Findings } from '../finding.ts'

export type HookSettings = Parameters<typeof hookRulesOf>[0]

export interface HookCounts {
  hooks: number
}

const hooksPerPage = 256
const lookupsAtOnce = 32
/** Most hooks belong to a few platforms, so each host is looked up once. */
const hostsKept = 10_000

interface HookRow {
  id: string
  url: string
  email: string
}

async function findPage(db: Database, last: string | undefined): Promise<HookRow[]> {
  const page = db
    .selectFrom('hooks as h')
    .innerJoin('integrations as i', 'i.id', 'h.integration_id')
    .innerJoin('users as u', 'u.id', 'i.user_id')
    .select(['h.id', 'h.url', 'u.email'])
    .orderBy('h.id')
    .limit(hooksPerPage)
  return await (last === undefined ? page : page.where('h.id', '>', last)).execute()
}

class HostCheck {
  private readonly rules: HookRules
  private readonly kept = new LRUCache<string, Promise<{ problem: string | undefined }>>({ max: hostsKept })

  constructor(rules: HookRules) {
    this.rules = rules
  }

  async findProblem(url: string): Promise<string | undefined> {
    const problem = findUrlProblem(url, this.rules)
    if (problem !== undefined) return problem
    const { origin } = new URL(url)
    const found = this.kept.get(origin) ?? checkHookUrl(origin, this.rules).then((wrong) => ({ problem: wrong }))
    this.kept.set(origin, found)
    return (await found).problem
  }
}

/** Yields the findings on all hooks, in the order of their ids; `counts` grows as hooks are checked. */
export async function* checkHooks(
  db: Database,
  settings: HookSettings,
  counts: HookCounts,
  signal?: AbortSignal,
): Findings {
  const hosts = new HostCheck(hookRulesOf(settings))
  for (let last: string | undefined; !signal?.aborted; ) {
    const page = await findPage(db, last)
    if (page.length === 0) return
    last = page.at(-1)?.id
    for (let at = 0; at < page.length && !signal?.aborted; at += lookupsAtOnce) {
      const some = page.slice(at, at + lookupsAtOnce)
      const problems = await Promise.all(some.map(({ url }) => hosts.findProblem(url)))
      counts.hooks += some.length
      for (const [n, { id, email }] of some.entries()) {
        const problem = problems[n]
        if (problem !== undefined) yield describe(id, email, problem)
      }
    }
  }
}

const describe = (id: string, email: string, problem: string): Finding => ({
  ...{ level: 'problem', code: 'hook', where: `hook ${id} of ${email}`, path: 'url' },
  what: `may not be called: ${problem.replace(/\.$/, '')}`,
  toDo: 'Its triggers fail until the platform registers another one; `leadpush integrations list` shows them.',
})
