/** Price Change: a listing has another price than before. */
const { buildTrigger } = require('./hook')

module.exports = buildTrigger({
  key: 'price_change',
  noun: 'Price Change',
  label: 'Price Change',
  description: 'Triggers when the price of a for-sale-by-owner listing changes that matches one of your queries.',
  own: [{ key: 'previousPrice', label: 'Previous Price in USD', type: 'number' }],
  ownSample: { previousPrice: 335000 },
})
