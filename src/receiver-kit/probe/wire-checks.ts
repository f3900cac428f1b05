/** Grades how fast all answers came and how connections were kept (contract 4.5). Sends nothing. */
import { milliseconds } from '../../base/amounts.ts'
import { type Check, fail, notVisible, pass, warn } from './check.ts'

export const buildWireChecks = (timeoutMs: number): readonly Check[] => [
  {
    name: 'in-time',
    title: 'Every answer was complete in time',
    clause: '4.5',
    sends: 'nothing of its own',
    async run({ sender: { answers, slowestMs, timeouts, requests } }) {
      const limit = `the limit is LEADPUSH_TIMEOUT, ${milliseconds(timeoutMs)}`
      if (timeouts > 0) {
        const advice = 'Answer sooner, and do what takes long after the leads are committed.'
        return fail({ received: `${timeouts} of ${requests} answers did not come in time; ${limit}` }, advice)
      }
      if (answers === 0) return notVisible('nothing was answered')
      const received = `the slowest took ${milliseconds(slowestMs)}; ${limit}`
      if (slowestMs <= timeoutMs / 2) return pass({ received })
      return warn({ received }, 'That is more than half of it: on a busy day it will be too much.')
    },
  },
  {
    name: 'plain-answers',
    title: 'No encoding is assumed that nobody asked for',
    clause: '4.2',
    sends: 'nothing of its own',
    async run({ sender: { answers, compressed } }) {
      if (answers === 0) return notVisible('nothing was answered')
      const received = `${compressed} of ${answers} answers were compressed`
      if (compressed === 0) return pass({ received: 'bodies went out and answers came back without Content-Encoding' })
      return warn({ received }, 'leadpush sends no Accept-Encoding: answer as it stands.')
    },
  },
  {
    name: 'connections',
    title: 'Connections are kept',
    clause: '4.5',
    sends: 'nothing of its own',
    async run({ sender: { connections } }) {
      const { chances, reused, broken } = connections
      const received = `${reused} of ${chances} requests went over a connection that was there`
      if (chances === 0) return notVisible('there were too few requests')
      if (broken > 0) {
        const advice = 'Say `Connection: close` where one ends, and keep an idle one for half a minute.'
        return fail({ received: `${received}; ${broken} broke under a request` }, advice)
      }
      if (reused > 0) return pass({ received })
      return warn({ received }, 'Keep connections alive: each delivery pays for a new one, with its TLS handshake.')
    },
  },
]
