/** A reporter for Node.js's test runner: prints each test file in which something failed, one per line. */
export default async function* listFailedFiles(source) {
  const files = new Set()
  for await (const { type, data } of source) {
    if (type === 'test:fail') files.add(data.file ?? data.name)
  }
  yield [...files].map((file) => `${file}\n`).join('')
}
