/** Work between two statements of a program, at a moment that a test chooses: what another process does, or a connection that breaks. */
import { type Kysely, type KyselyPlugin, OperationNodeTransformer, type QueryId, type RawNode } from 'kysely'
import { markTrouble } from '../../src/db/away.ts'
import type { Tables } from '../../src/db/tables.ts'

/** The server carried the statement out, and its answer was lost with the connection. */
export const answerLost = () => markTrouble(new Error('Connection terminated unexpectedly'))

/**
 * The same database: after each statement with the text `asked`, for as long as there are `steps`, the next of these runs before the
 * program has the answer. A step that throws takes the answer's place.
 */
export function afterStatement(
  db: Kysely<Tables>,
  asked: string,
  ...steps: (() => Promise<unknown>)[]
): Kysely<Tables> {
  const found = new WeakSet<QueryId>()
  class Finder extends OperationNodeTransformer {
    protected override transformRaw(node: RawNode, queryId?: QueryId): RawNode {
      if (queryId && node.sqlFragments.some((text) => text.includes(asked))) found.add(queryId)
      return super.transformRaw(node, queryId)
    }
  }
  const finder = new Finder()
  const plugin: KyselyPlugin = {
    transformQuery: ({ node, queryId }) => finder.transformNode(node, queryId),
    async transformResult({ queryId, result }) {
      if (found.has(queryId)) await steps.shift()?.()
      return result
    },
  }
  return db.withPlugin(plugin)
}
