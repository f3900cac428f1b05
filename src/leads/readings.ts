// stand-in
export function postalKey(text: string): string | undefined {
  const t = text
    .normalize('NFKC')
    .toUpperCase()
    .replace(/[\s-]+/g, '')
  const m = /^(\d{3,5})(\d{4})?$/.exec(t)
  if (m && t.length !== 8) return (m[1] as string).padStart(5, '0')
  return t === '' || t.length > 100 ? undefined : t
}
export function listingWords(lead: {
  address: string | null
  city: string | null
  state: string | null
  propertyType: string | null
  description: string | null
}): string {
  return [lead.address, lead.city, lead.state, lead.propertyType, lead.description?.slice(0, 100000)]
    .filter(Boolean)
    .join(' \n')
    .normalize('NFKC')
    .toLowerCase()
}
