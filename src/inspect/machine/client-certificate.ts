/** Checks the dates of the client certificate for the receiver. No connection is made. */
import { X509Certificate } from 'node:crypto'
import {
  type Check,
  type CheckContext,
  failure,
  judge,
  pass,
  skipped,
  type Trouble,
  type Verdict,
  warning,
} from './check.ts'

const soonDays = 30
const dayMs = 86_400_000

/** The first of a chain is the client certificate, the others lead to its authority. Each must be valid. */
const splitChain = (pem: string): X509Certificate[] =>
  (pem.match(/-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----/gs) ?? []).map(
    (each) => new X509Certificate(each),
  )

const dayOf = (time: Date) => time.toISOString().slice(0, 10)

/** The verdict on the dates of `pem`: a certificate, or a chain that begins with it. */
export function judgeDates(pem: string, now: Date): Verdict {
  const chain = splitChain(pem).map((each) => ({ from: new Date(each.validFrom), to: new Date(each.validTo) }))
  const troubles: Trouble[] = []
  for (const [index, { from, to }] of chain.entries()) {
    const what = index === 0 ? 'The certificate' : `Certificate ${index + 1} of the chain`
    const renew =
      'Ask the operator of the receiver for a new one, and put it with its key into LEADPUSH_CLIENT_CERT and LEADPUSH_CLIENT_KEY.'
    if (to <= now)
      troubles.push(failure(`${what} expired on ${dayOf(to)}: the receiver refuses every delivery.`, renew))
    else if (from > now) {
      const message = `${what} is not valid before ${dayOf(from)}: until then the receiver refuses every delivery.`
      troubles.push(failure(message, 'Check the clock of this machine, or use the previous certificate until then.'))
    } else if (to.getTime() - now.getTime() < soonDays * dayMs) {
      const days = Math.floor((to.getTime() - now.getTime()) / dayMs)
      troubles.push(warning(`${what} ends in ${days === 1 ? '1 day' : `${days} days`}, on ${dayOf(to)}.`, renew))
    }
  }
  const [first] = chain
  return first
    ? judge(`it belongs to its key, and is valid until ${dayOf(first.to)}`, troubles)
    : pass('it belongs to its key')
}

async function checkClientCertificate({ inspection }: CheckContext): Promise<Verdict> {
  const { settings, wrong } = inspection
  if (wrong.has('clientCert') || wrong.has('clientKey'))
    return skipped('LEADPUSH_CLIENT_CERT or LEADPUSH_CLIENT_KEY is wrong')
  const { clientCert, receiverUrl } = settings
  if (clientCert === undefined) return skipped('LEADPUSH_CLIENT_CERT is not set')
  if (receiverUrl !== undefined && /^http:/i.test(receiverUrl)) {
    const message =
      'LEADPUSH_CLIENT_CERT is set, but LEADPUSH_RECEIVER_URL begins with `http:`, so the certificate is never shown.'
    return judge('', [
      warning(message, 'Use https: if the receiver has it, or unset both settings of the certificate.'),
    ])
  }
  return judgeDates(clientCert, new Date())
}

export const clientCertificateCheck: Check = {
  name: 'client-certificate',
  title: 'Certificate',
  run: checkClientCertificate,
}
