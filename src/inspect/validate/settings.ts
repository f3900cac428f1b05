/** Finds problems with settings that are allowed one by one, but wrong together or wrong for a push. */
import { isIP } from 'node:net'
import { isInsideName, isPublicAddress } from '../../integrations/hook-address.ts'
import type { Finding } from './finding.ts'

/** Whether `hostname`, written as in a URL, is this machine or in its private network. */
export function isLocalHost(hostname: string): boolean {
  const host = hostname.replace(/^\[|\]$/g, '')
  return isIP(host) === 0 ? isInsideName(host) : !isPublicAddress(host)
}

export interface SettingsToCheck {
  receiverUrl: string | undefined
  allowInsecureHooks: string | undefined
  hookHosts?: readonly string[] | undefined
  timeZone: string
}

/** `otherTimeZone`: the time zone of the last run, if it was a different one. Values that may be secret are not quoted. */
export function findSettingProblems(settings: SettingsToCheck, otherTimeZone: string | undefined): Finding[] {
  const findings: Finding[] = []
  const add = (type: Finding['type'], path: string, message: string, hint: string) => {
    findings.push({ type, where: 'settings', path, message, hint })
  }
  const { receiverUrl, timeZone } = settings
  if (receiverUrl === undefined) {
    const hint = "Set it to the receiver's full URL, such as https://receiver.example/leads."
    add('problem', 'LEADPUSH_RECEIVER_URL', 'is not set: a push needs to know where to send', hint)
  } else if (/^http:/i.test(receiverUrl) && !isLocalHost(new URL(receiverUrl).hostname)) {
    const message = 'is http: to a host that is not local: keys and contacts travel where others can read them'
    add('note', 'LEADPUSH_RECEIVER_URL', message, 'Use https: if the receiver has it.')
  }
  if (receiverUrl?.includes('?')) {
    const message = 'has query parameters, which the interface of a delivery does not have: a receiver may refuse them'
    add('note', 'LEADPUSH_RECEIVER_URL', message, 'Leave them out, unless the receiver asks for them.')
  }
  if (otherTimeZone !== undefined) {
    const message = `is ${timeZone}, and the last run used ${otherTimeZone}: weeks overlap where machines differ, and a weekly push is held`
    add('note', 'LEADPUSH_TIME_ZONE', message, 'Give all machines that share a database the same time zone.')
  }
  if (settings.allowInsecureHooks !== undefined) {
    const message = 'is set: hooks may be http: and lead to private addresses'
    add('note', 'LEADPUSH_ALLOW_INSECURE_HOOKS', message, 'Unset it, unless this machine is for development.')
  }
  return findings
}
