/** `leadpush serve`. */
import { describe, SettingOption } from '../describe.ts'
import { pushNeeds, pushSettings } from '../push/settings.ts'

export const serve = describe({
  name: 'serve',
  about: 'Serve the endpoints with which automation platforms test, subscribe and unsubscribe.',
  options: [
    new SettingOption('--host <address>', 'where to listen (127.0.0.1)', 'host'),
    new SettingOption('--port <port>', 'on which port; 0 takes a free one (8080)', 'port'),
  ],
  help: `
Examples:
  leadpush serve
  LEADPUSH_TRUST_PROXY=127.0.0.1 leadpush serve --port 9000

serve speaks plain HTTP: put a proxy with TLS in front of it that forwards only
/api/extern/. /healthz, /readyz, /metrics and /openapi.json are not for the
internet.`,
  // the settings of pushes are checked here too: their processes would only fail
  settings: [
    ...pushSettings,
    ...(['automation', 'host', 'port', 'limitAddress', 'limitKey', 'trustProxy'] as const),
    ...(['allowInsecureHooks', 'hookHosts'] as const),
  ],
  needs: pushNeeds,
  database: 'reads',
  work: async () => (await import('../serve.ts')).serve,
})
