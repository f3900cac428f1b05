/** The page of `preview --out`. */
import { rideOut } from '../../db/away.ts'
import type { Database } from '../../db/open.ts'
import { buildDryRunPage } from '../../inspect/preview-page/build-page.ts'
import { findDryRun } from '../../inspect/preview-page/find-dry-run.ts'
import type { Preview, PreviewSettings } from '../../push/preview/preview.ts'
import type { FoundUser } from '../../users/users.ts'
import type { OutFile } from '../out-file.ts'

/** Returns the size of the page in bytes. */
export async function writePage(
  db: Database,
  user: FoundUser,
  planned: Preview,
  settings: PreviewSettings,
  file: OutFile,
): Promise<number> {
  const found = await rideOut(() => findDryRun(db, user, planned, settings))
  return await file.write(buildDryRunPage(found, settings.timeZone))
}
