/** Builds the body of a past delivery again, from the query list and the recipe that the ledger keeps. */
import { LeadpushError } from '../../base/errors.ts'
import type { Database } from '../../db/open.ts'
import { buildBody } from '../../deliveries/body.ts'
import { decodeRecipe } from '../../deliveries/recipe.ts'
import { LeadStore } from '../../leads/lead-store.ts'
import type { UserDelivery } from '../status/user-deliveries.ts'

/** Returns the body byte for byte as it was sent. Throws `failed` if one of its listings was erased or pruned since then. */
export async function readDeliveredBody(
  db: Database,
  { recipe, queryList, bytes }: Pick<UserDelivery, 'recipe' | 'bytes'> & { queryList: string },
): Promise<Buffer> {
  const contents = decodeRecipe(recipe).map((versionId) => ({ versionId }))
  const leads = await new LeadStore(db).readJson(contents)
  if (!leads) {
    throw new LeadpushError('failed', 'The body cannot be built any more: a listing of it was erased or pruned.', {
      hint: 'Without --body the rest of the delivery is shown.',
    })
  }
  return buildBody(queryList, leads, bytes)
}

/** The error for a key that no delivery has. */
export const unknownDelivery = (key: string): LeadpushError =>
  new LeadpushError('usage', `There is no delivery with the key ${JSON.stringify(key)}.`, {
    hint: '`leadpush deliveries list` shows the keys; `prune` deletes old deliveries.',
  })
