/** A TCP proxy to a database, wherever its server listens: it can be made to swallow everything. */
import net from 'node:net'
import { after } from 'node:test'
import { listen } from './sockets.ts'

/** Starts a way to the database at `url`, until the test is over. */
export async function startWay(url: string) {
  const target = new URL(url)
  const host = target.searchParams.get('host') ?? decodeURIComponent(target.hostname)
  const path = `${host}/.s.PGSQL.${target.port || 5432}`
  const sockets = new Set<net.Socket>()
  let passesNew = true
  let refuses = false
  const toLose: { asked: string; answer: string }[] = []
  const loseAnswers = (near: net.Socket, far: net.Socket) =>
    near.on('data', (asked) => {
      const lost = toLose.find((one) => asked.includes(one.asked))
      if (lost === undefined) return
      far.unpipe(near)
      // the server answers once it is done; the client only sees a broken connection
      far.once('data', (answer) => {
        if (answer.includes(lost.answer) && toLose.includes(lost)) {
          toLose.splice(toLose.indexOf(lost), 1)
          near.destroy()
          return
        }
        near.write(answer)
        far.pipe(near)
      })
      far.resume()
    })
  const server = net.createServer((near) => {
    near.on('error', () => {})
    if (refuses) near.destroy()
    if (!passesNew) return
    const far = host.startsWith('/') ? net.connect(path) : net.connect(Number(target.port || 5432), host)
    far.on('error', () => near.destroy())
    if (toLose.length > 0) loseAnswers(near, far)
    near.pipe(far)
    far.pipe(near)
    for (const socket of [near, far]) sockets.add(socket)
  })
  const { port, close } = await listen(server)
  after(close)
  return {
    url: `postgresql://${target.username}@127.0.0.1:${port}${target.pathname}`,
    /**
     * The server carries out the next statement that contains `asked`, but its `answer` is lost with the connection. Applies
     * to connections that begin later.
     */
    loseAnswer(asked: string, answer = '') {
      toLose.push({ asked, answer })
    },
    /** How many such answers are still to be lost. */
    toLose: () => toLose.length,
    /** From now on existing connections pass nothing; with `all`, new ones neither. */
    swallow({ all }: { all: boolean }) {
      passesNew = !all
      for (const socket of sockets) {
        socket.unpipe()
        socket.pause()
      }
    },
    /** From now on every connection breaks at once, existing ones too. */
    refuse() {
      passesNew = false
      refuses = true
      for (const socket of sockets) socket.destroy()
    },
    /** New connections pass again; swallowed bytes stay lost. */
    mend() {
      passesNew = true
      refuses = false
    },
  }
}
