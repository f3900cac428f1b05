#!/usr/bin/env node
// The door: checks the version of Node.js, then runs the program. In a checkout it builds it first, when that is missing or
// older than the sources. The first lines must run on any Node.js; other files have what only newer ones know.
const needed = [20, 19]
const [major, minor] = process.versions.node.split('.').map(Number)

if (major > needed[0] || (major === needed[0] && minor >= needed[1])) {
  import('./start.js').then(({ start }) => start())
} else {
  console.error(
    `leadpush needs Node.js ${needed.join('.')} or newer; this is ${process.versions.node}. ` +
      'Install a newer one from https://nodejs.org, or run leadpush with another `node`.',
  )
  process.exitCode = 2
}
