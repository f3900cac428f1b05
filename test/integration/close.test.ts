import { test } from 'node:test'
import { streamOf } from '../../src/db/client.ts'
import { openDatabase } from '../../src/db/open.ts'
import { createDatabase } from '../support/database.ts'
import { until } from '../support/until.ts'
import { startWay } from '../support/way.ts'

// the pool counts as ended before its idle connections are: the process of a command that had told its error lived on
test('no connection outlives the database that was closed, also where the server fell silent while it was idle', async () => {
  const { url } = await createDatabase()
  const way = await startWay(url)
  const opened = await openDatabase({ databaseUrl: way.url, home: '' })
  const client = await opened.pool.connect()
  const stream = streamOf(client)
  client.release()
  way.swallow({ all: true })
  await opened.close()
  await until('the connection is closed', () => stream.closed)
})
