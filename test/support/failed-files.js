/** A reporter of Node.js's runner: the test files in which something failed, a line each. */
export default async function* listFailedFiles(source) {
  const files = new Set()
  for await (const { type, data } of source) {
    if (type === 'test:fail') files.add(data.file ?? data.name)
  }
  yield [...files].map((file) => `${file}\n`).join('')
}
