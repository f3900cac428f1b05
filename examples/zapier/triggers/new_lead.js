/** New Lead: a listing came in. */
const { buildTrigger } = require('./hook')

module.exports = buildTrigger({
  key: 'new_lead',
  noun: 'Lead',
  label: 'New Lead',
  description: 'Triggers when a for-sale-by-owner listing appears that matches one of your queries.',
})
