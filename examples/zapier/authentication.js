/** A connection: whose installation of leadpush, and the API key of one of its integrations. */
const { callLeadpush } = require('./leadpush')

/** What it returns is shown to people and kept: nothing of the key. */
async function test(z, bundle) {
  const { userEmail } = await callLeadpush(z, bundle, 'GET', 'test')
  return { userEmail }
}

module.exports = {
  type: 'custom',
  fields: [
    {
      key: 'baseUrl',
      label: 'Base URL',
      type: 'string',
      required: true,
      placeholder: 'https://leads.example.com',
      helpText:
        'Where leadpush is served, up to and without `/api/extern`. It begins with `https://`, since the API key goes there.',
    },
    {
      key: 'apiKey',
      label: 'API key',
      type: 'password',
      required: true,
      helpText: 'The key that the operator of leadpush made for you; it was shown once.',
    },
  ],
  test,
  connectionLabel: (_z, bundle) => bundle.inputData.userEmail,
}
