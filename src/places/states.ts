/** The codes and names of the states and territories of the United States and the provinces of Canada. */
import { foldPlaceName } from './fold.ts'

const names: Readonly<Record<string, string>> = {
  AL: 'Alabama', AK: 'Alaska', AZ: 'Arizona', AR: 'Arkansas', CA: 'California', CO: 'Colorado', CT: 'Connecticut',
  DE: 'Delaware', DC: 'District of Columbia', FL: 'Florida', GA: 'Georgia', HI: 'Hawaii', ID: 'Idaho', IL: 'Illinois',
  IN: 'Indiana', IA: 'Iowa', KS: 'Kansas', KY: 'Kentucky', LA: 'Louisiana', ME: 'Maine', MD: 'Maryland',
  MA: 'Massachusetts', MI: 'Michigan', MN: 'Minnesota', MS: 'Mississippi', MO: 'Missouri', MT: 'Montana', NE: 'Nebraska',
  NV: 'Nevada', NH: 'New Hampshire', NJ: 'New Jersey', NM: 'New Mexico', NY: 'New York', NC: 'North Carolina',
  ND: 'North Dakota', OH: 'Ohio', OK: 'Oklahoma', OR: 'Oregon', PA: 'Pennsylvania', RI: 'Rhode Island',
  SC: 'South Carolina', SD: 'South Dakota', TN: 'Tennessee', TX: 'Texas', UT: 'Utah', VT: 'Vermont', VA: 'Virginia',
  WA: 'Washington', WV: 'West Virginia', WI: 'Wisconsin', WY: 'Wyoming',
  AS: 'American Samoa', FM: 'Federated States of Micronesia', GU: 'Guam', MH: 'Marshall Islands',
  MP: 'Northern Mariana Islands', PR: 'Puerto Rico', PW: 'Palau', VI: 'Virgin Islands',
  AB: 'Alberta', BC: 'British Columbia', MB: 'Manitoba', NB: 'New Brunswick', NL: 'Newfoundland and Labrador',
  NT: 'Northwest Territories', NS: 'Nova Scotia', NU: 'Nunavut', ON: 'Ontario', PE: 'Prince Edward Island', QC: 'Quebec',
  SK: 'Saskatchewan', YT: 'Yukon',
} // biome-ignore format: a list

const otherNames: Readonly<Record<string, string>> = {
  'U.S. Virgin Islands': 'VI',
  'US Virgin Islands': 'VI',
  Micronesia: 'FM',
  Newfoundland: 'NL',
  PEI: 'PE',
  PQ: 'QC',
  'Yukon Territory': 'YT',
}

const codeOfName: ReadonlyMap<string, string> = new Map([
  ...Object.keys(names).map((code) => [foldPlaceName(code), code] as const),
  ...Object.entries(names).map(([code, name]) => [foldPlaceName(name), code] as const),
  ...Object.entries(otherNames).map(([name, code]) => [foldPlaceName(name), code] as const),
])

/** The code of a state given by its code or its name, in any spelling; undefined for anything else. */
export function findStateCode(text: string): string | undefined {
  return codeOfName.get(foldPlaceName(text))
}

/** `Texas` for `TX`; undefined for an unknown code. */
export function findStateName(code: string): string | undefined {
  return names[code]
}
