/**
 * The script of a page: sorts a table by the column whose head is pressed, and filters long tables by the typed words. It adds native
 * buttons and fields, so keyboards and screen readers work. Without the script only these are missing.
 */
export const script = `'use strict'
for (const box of document.querySelectorAll('.table')) {
  const body = box.querySelector('tbody')
  const rows = [...body.rows]
  const valueOf = (row, at) => row.cells[at].dataset.sort ?? row.cells[at].textContent
  const compare = (a, b) => {
    const [x, y] = [Number(a), Number(b)]
    if (a === '' || b === '') return (a === '') - (b === '')
    return Number.isNaN(x) || Number.isNaN(y) ? a.localeCompare(b, 'en', { numeric: true }) : x - y
  }
  const heads = [...box.querySelectorAll('thead th')]
  heads.forEach((head, at) => {
    if (rows.length < 2) return
    const button = document.createElement('button')
    button.type = 'button'
    button.append(...head.childNodes)
    head.append(button)
    button.addEventListener('click', () => {
      const now = head.getAttribute('aria-sort')
      const falls = now === null ? head.classList.contains('number') : now === 'ascending'
      for (const other of heads) other.removeAttribute('aria-sort')
      head.setAttribute('aria-sort', falls ? 'descending' : 'ascending')
      const sorted = rows.toSorted ? rows.toSorted(order) : [...rows].sort(order)
      function order(a, b) {
        const [x, y] = [valueOf(a, at), valueOf(b, at)]
        return (falls && x !== '' && y !== '' ? -1 : 1) * compare(x, y)
      }
      body.append(...sorted)
    })
  })
}
for (const box of document.querySelectorAll('[data-search]')) {
  const items = [...box.querySelector('tbody').children]
  const label = document.createElement('label')
  label.className = 'search'
  const field = document.createElement('input')
  field.type = 'search'
  field.autocomplete = 'off'
  field.spellcheck = false
  const found = document.createElement('output')
  label.append('Search', Object.assign(document.createElement('span'), { className: 'unseen', textContent: ' ' + box.dataset.search }), field)
  if (!box.querySelector('.tools')) box.prepend(Object.assign(document.createElement('div'), { className: 'tools' }))
  box.querySelector('.tools').append(found, label)
  const texts = new Map(items.map((item) => [item, item.textContent.toLowerCase()]))
  field.addEventListener('input', () => {
    const words = field.value.toLowerCase().split(/\\s+/).filter(Boolean)
    let shown = 0
    for (const item of items) {
      item.hidden = !words.every((word) => texts.get(item).includes(word))
      if (!item.hidden) shown += 1
    }
    found.textContent = words.length === 0 ? '' : shown + ' of ' + items.length
  })
}
`
