/** The integration as Zapier loads it: how to connect, and its triggers. */
const zapier = require('zapier-platform-core')
const authentication = require('./authentication')
const newLead = require('./triggers/new_lead')
const priceChange = require('./triggers/price_change')
const leadGone = require('./triggers/lead_gone')
const { version } = require('./package.json')

module.exports = zapier.defineApp({
  version,
  platformVersion: zapier.version,
  authentication,
  triggers: { [newLead.key]: newLead, [priceChange.key]: priceChange, [leadGone.key]: leadGone },
})
