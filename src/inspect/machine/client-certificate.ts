/** Checks the dates of the client certificate for the receiver. No connection is made. */
import { X509Certificate } from 'node:crypto'
import { plural } from '../../base/amounts.ts'
import { type Found, note, problem } from '../finding.ts'
import type { Check, CheckContext } from './check.ts'

const soonDays = 30
const dayMs = 86_400_000

/** The first certificate of a chain is that of the client, the others lead to its authority. Each must be valid. */
const splitChain = (pem: string): X509Certificate[] =>
  (pem.match(/-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----/gs) ?? []).map(
    (each) => new X509Certificate(each),
  )

const dayOf = (time: Date) => time.toISOString().slice(0, 10)

/** Judges the dates of `pem`: a certificate, or a chain that begins with it. */
export function judgeDates(pem: string, now: Date): Found[] {
  const renew =
    'Ask the operator of the receiver for a new one, and put it with its key into LEADPUSH_CLIENT_CERT and LEADPUSH_CLIENT_KEY.'
  return splitChain(pem).flatMap(({ validFrom, validTo }, index): Found[] => {
    const [from, to] = [new Date(validFrom), new Date(validTo)]
    const which = index === 0 ? 'The certificate' : `Certificate ${index + 1} of the chain`
    if (to <= now) return [problem(`${which} expired on ${dayOf(to)}: the receiver refuses every delivery`, renew)]
    if (from > now) {
      const what = `${which} is not valid before ${dayOf(from)}: until then the receiver refuses every delivery`
      return [problem(what, 'Check the clock of this machine, or use the previous certificate until then.')]
    }
    const days = Math.floor((to.getTime() - now.getTime()) / dayMs)
    return days < soonDays ? [note(`${which} ends in ${plural(days, 'day')}, on ${dayOf(to)}`, renew)] : []
  })
}

function checkClientCertificate({ inspection }: CheckContext): Found[] {
  const { settings, wrong } = inspection
  const { clientCert, receiverUrl } = settings
  if (clientCert === undefined || wrong.has('clientCert') || wrong.has('clientKey')) return []
  if (receiverUrl === undefined || !/^http:/i.test(receiverUrl)) return judgeDates(clientCert, new Date())
  const what = 'is set, but LEADPUSH_RECEIVER_URL begins with `http:`, so the certificate is never shown'
  const toDo = 'Use https: if the receiver has it, or unset both settings of the certificate.'
  return [{ ...note(what, toDo, 'LEADPUSH_CLIENT_CERT'), where: 'settings' }]
}

export const clientCertificateCheck: Check = {
  code: 'client-certificate',
  title: 'certificate',
  run: checkClientCertificate,
}
