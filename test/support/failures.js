/** A reporter for Node.js's test runner: each test that failed, as its file, a tab and its name, one per line. */
export default async function* listFailures(source) {
  const failures = new Set()
  for await (const { type, data } of source) {
    // a suite, or a whole file, fails by what fails in it
    if (type !== 'test:fail' || data.details?.error?.failureType === 'subtestsFailed') continue
    failures.add(`${data.file ?? data.name}\t${data.name}`)
  }
  yield [...failures].map((failure) => `${failure}\n`).join('')
}
