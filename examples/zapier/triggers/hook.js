/**
 * What all triggers share. Each is a REST hook: Zapier registers a URL for each workflow that is switched on, and leadpush posts a
 * lead at a time.
 */
const { callLeadpush } = require('../leadpush')

const performSubscribe = (trigger) => async (z, bundle) => {
  const { id } = await callLeadpush(z, bundle, 'POST', 'subscribe', { body: { hookUrl: bundle.targetUrl, trigger } })
  return { id }
}

async function performUnsubscribe(z, bundle) {
  const { id } = bundle.subscribeData ?? {}
  // a request that names no hook would remove those of the other workflows too; one with an empty name is refused
  const body = id ? { id } : { hookUrl: bundle.targetUrl ?? '' }
  await callLeadpush(z, bundle, 'PUT', 'unsubscribe', { body })
  return {}
}

/** For the editor: the newest leads of the user, or examples. */
const performList = (trigger) => async (z, bundle) => {
  const { leads } = await callLeadpush(z, bundle, 'GET', 'sample', { params: { trigger } })
  if (!Array.isArray(leads)) {
    throw new z.errors.Error('The answer has no leads in it: is the base URL that of leadpush?', 'NoLeads')
  }
  return leads
}

/**
 * The lead as it came. The signature is not checked, though it could be: Zapier passes the request on in `bundle.rawRequest`
 * (`content`, and `headers` with `webhook-id`, `-timestamp` and `-signature`, their names prefixed with `Http-`). To check it, add the
 * integration's signing secret as a further field of the connection. Without a check only the hook URL, which Zapier and leadpush
 * alone know, vouches for a lead. A lead that comes again after a failure has the same `id`.
 */
const perform = async (_z, bundle) => [bundle.cleanedRequest]

/** Of every trigger; those of its own come after `occurredAt`. */
const outputFields = [
  { key: 'id', label: 'ID', type: 'string', primary: true },
  { key: 'trigger', label: 'Trigger', type: 'string' },
  { key: 'occurredAt', label: 'Occurred At', type: 'datetime' },
  { key: 'href', label: 'Listing URL', type: 'string' },
  { key: 'postalCode', label: 'Postal Code', type: 'string' },
  { key: 'schemaVersion', label: 'Schema Version', type: 'string' },
  { key: 'price', label: 'Price in USD', type: 'number' },
  { key: 'rawListingDate', label: 'Listing Date as Written', type: 'string' },
  { key: 'sqft', label: 'Square Feet', type: 'number' },
  { key: 'bedrooms', label: 'Bedrooms', type: 'number' },
  { key: 'bathrooms', label: 'Bathrooms', type: 'number' },
  { key: 'yearBuilt', label: 'Year Built', type: 'number' },
  { key: 'description', label: 'Description', type: 'string' },
  { key: 'propertyType', label: 'Property Type', type: 'string' },
  { key: 'contactName', label: 'Contact Name', type: 'string' },
  { key: 'contactPhone', label: 'Contact Phone', type: 'string' },
  { key: 'contactEmail', label: 'Contact Email', type: 'string' },
  { key: 'fullAddress', label: 'Full Address', type: 'string' },
  { key: 'address', label: 'Address', type: 'string' },
  { key: 'secondAddress', label: 'Second Address', type: 'string' },
  { key: 'city', label: 'City', type: 'string' },
  { key: 'state', label: 'State', type: 'string' },
  { key: 'country', label: 'Country', type: 'string' },
]

const sample = {
  id: '5d41402abc4b2a76b9719d911017c592',
  occurredAt: '2026-01-01T00:00:00.000Z',
  href: 'https://listings.example/example-1',
  postalCode: '78704',
  schemaVersion: 'v0.1.0',
  price: 325000,
  rawListingDate: '2026-01-01',
  sqft: 1350,
  bedrooms: 2,
  bathrooms: 1,
  yearBuilt: 1981,
  description: 'An example: there is no such listing.',
  propertyType: 'single family',
  contactName: 'Example Owner',
  contactPhone: '512-555-0100',
  contactEmail: 'owner-1@example.com',
  fullAddress: '1 Example Street, Unit 1, Austin, TX 78704',
  address: '1 Example Street',
  secondAddress: 'Unit 1',
  city: 'Austin',
  state: 'TX',
  country: 'US',
}

/** `own`: the fields that this trigger alone has, and their samples. */
function buildTrigger({ key, noun, label, description, own = [], ownSample = {} }) {
  const { id, occurredAt, ...rest } = sample
  return {
    key,
    noun,
    display: { label, description },
    operation: {
      type: 'hook',
      performSubscribe: performSubscribe(key),
      performUnsubscribe,
      performList: performList(key),
      perform,
      sample: { id, trigger: key, occurredAt, ...ownSample, ...rest },
      outputFields: [...outputFields.slice(0, 3), ...own, ...outputFields.slice(3)],
    },
  }
}

module.exports = { buildTrigger }
