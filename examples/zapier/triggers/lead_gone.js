/** Lead Gone: a listing went from its feed. */
const { buildTrigger } = require('./hook')

module.exports = buildTrigger({
  key: 'lead_gone',
  noun: 'Lead Gone',
  label: 'Lead Gone',
  description: 'Triggers when a for-sale-by-owner listing that matches one of your queries is no longer offered.',
})
