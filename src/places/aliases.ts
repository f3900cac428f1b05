/**
 * Names that people use and postal services do not, with the first characters of their postal codes. A name that the postal
 * codes have too means both sets of codes.
 */

/** Names for one set of postal codes in a state. */
export interface Alias {
  state: string
  names: readonly string[]
  prefixes: readonly string[]
}

const manhattan = ['100', '101', '102']
const bronx = ['104']
const brooklyn = ['112']
const queens = ['11004', '11005', '111', '113', '114', '116']
const statenIsland = ['103']

/** All aliases, by the state in which they count. */
export const aliases: readonly Alias[] = [
  {
    state: 'NY',
    names: ['New York City', 'City of New York', 'NYC'],
    prefixes: [...manhattan, ...bronx, ...brooklyn, ...queens, ...statenIsland],
  },
  { state: 'NY', names: ['Manhattan'], prefixes: manhattan },
  { state: 'NY', names: ['Bronx', 'The Bronx'], prefixes: bronx },
  { state: 'NY', names: ['Brooklyn'], prefixes: brooklyn },
  { state: 'NY', names: ['Queens'], prefixes: queens },
  { state: 'NY', names: ['Staten Island'], prefixes: statenIsland },
  { state: 'DC', names: ['Washington D.C.', 'Washington City'], prefixes: ['200', '202', '203', '204', '205'] },
  { state: 'CA', names: ['Ventura', 'San Buenaventura'], prefixes: ['93001', '93002', '93003', '93004'] },
  { state: 'VI', names: ['Charlotte Amalie'], prefixes: ['00801', '00802', '00803', '00804'] },
  { state: 'VI', names: ['Saint Croix'], prefixes: ['0082', '0084', '0085'] },
  { state: 'ON', names: ['Toronto'], prefixes: ['M'] },
  { state: 'QC', names: ['Montreal'], prefixes: ['H1', 'H2', 'H3', 'H4', 'H5', 'H8'] },
  { state: 'QC', names: ['Laval'], prefixes: ['H7'] },
  { state: 'QC', names: ['Quebec', 'Quebec City', 'Ville de Quebec'], prefixes: ['G1', 'G2'] },
  { state: 'BC', names: ['Langley'], prefixes: ['V1M', 'V2Y', 'V2Z', 'V3A', 'V4W'] },
]
