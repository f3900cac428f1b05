/** The one way to the endpoints of leadpush: where they are, how the key goes along, and what each answer means to Zapier. */

/** What `LEADPUSH_AUTOMATION` is where leadpush is served. */
const automation = 'zapier'

/** When to try again where nobody says. */
const retrySeconds = 60

/**
 * Calls `/api/extern/{automation}/{endpoint}` and returns the JSON of its answer. Throws `ExpiredAuthError` where the key is
 * unknown or revoked, `ThrottledError` where trying later helps, `Error` with a sentence for a person where it does not.
 */
async function callLeadpush(z, bundle, method, endpoint, { params, body } = {}) {
  // a pasted text brings along spaces and line ends
  const [baseUrl, apiKey] = [bundle.authData.baseUrl, bundle.authData.apiKey].map((text) => String(text ?? '').trim())
  const root = baseUrl.replace(/\/+$/, '')
  // `http:` would show the key to the network; at Zapier nothing is on loopback, where this is tried
  if (!/^(https:\/\/|http:\/\/127\.0\.0\.1:)[^\s/?#@]+(\/[^\s?#]*)?$/i.test(root)) {
    throw new z.errors.Error('The base URL must look like https://leads.example.com.', 'BaseUrl')
  }
  const request = {
    method,
    url: `${root}/api/extern/${automation}/${endpoint}`,
    params: { ...params, api_key: apiKey },
    body,
    // a POST that is redirected becomes a GET, and the key would go to that address
    redirect: 'manual',
    // every status is read below
    skipThrowForStatus: true,
    throwForThrottlingEarly: false,
  }
  const response = await z.request(request).catch((error) => {
    // its message has the whole URL in it, with the key
    throw new z.errors.ThrottledError(`There is no answer from ${root} (${error.code ?? error.name}).`, retrySeconds)
  })
  const { status, data } = response
  if (status === 200 && data?.ok === true) return data
  const isLeadpush = data?.ok === false && typeof data.msg === 'string'
  const message = isLeadpush ? data.msg : describeStranger(root, response)
  // API keys are not renewed by themselves: a person has to connect anew, and no proxy's 401 may cause that
  if (status === 401 && isLeadpush) throw new z.errors.ExpiredAuthError(message)
  if (status === 429 || status >= 500) {
    throw new z.errors.ThrottledError(message, Number.parseInt(response.getHeader('retry-after'), 10) || retrySeconds)
  }
  throw new z.errors.Error(message, 'Refused', status)
}

/** What is there instead of leadpush. */
function describeStranger(baseUrl, response) {
  const { status } = response
  const location = response.getHeader('location')
  if (status >= 300 && status < 400 && location && URL.canParse(location, baseUrl)) {
    return `${baseUrl} redirects to ${new URL(location, baseUrl).origin}: check the base URL.`
  }
  return `${baseUrl} answered with ${status}, and not as leadpush does: check the base URL.`
}

module.exports = { callLeadpush }
