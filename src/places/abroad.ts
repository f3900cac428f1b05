/**
 * Which listings lie abroad (contract 4.18): outside of the United States, its territories and Canada, whose postal codes are all that
 * leadpush knows. Many countries have codes that look alike: 10115 is in Berlin and in New York.
 */
import { foldPlaceName } from './fold.ts'
import { findStateCode } from './states.ts'

const words = (text: string) => text.split(/\s+/)

/** Codes of ISO 3166-1, in two and three letters. */
const home = new Set(words('us ca pr gu vi as mp fm mh pw um usa can pri gum vir asm mnp fsm mhl plw umi'))

const threeLetters = words(
  `
  abw afg ago aia ala alb and are arg arm ata atf atg aus aut aze bdi bel ben bes bfa bgd bgr bhr bhs bih blm blr blz bmu bol bra brb
  brn btn bvt bwa caf cck che chl chn civ cmr cod cog cok col com cpv cri cub cuw cxr cym cyp cze deu dji dma dnk dom dza ecu egy eri
  esh esp est eth fin fji flk fra fro gab gbr geo ggy gha gib gin glp gmb gnb gnq grc grd grl gtm guf guy hkg hmd hnd hrv hti hun idn
  imn ind iot irl irn irq isl isr ita jam jey jor jpn kaz ken kgz khm kir kna kor kwt lao lbn lbr lby lca lie lka lso ltu lux lva mac
  maf mar mco mda mdg mdv mex mkd mli mlt mmr mne mng moz mrt msr mtq mus mwi mys myt nam ncl ner nfk nga nic niu nld nor npl nru nzl
  omn pak pan pcn per phl png pol prk prt pry pse pyf qat reu rou rus rwa sau sdn sen sgp sgs shn sjm slb sle slv smr som spm srb ssd
  stp sur svk svn swe swz sxm syc syr tca tcd tgo tha tjk tkl tkm tls ton tto tun tur tuv twn tza uga ukr ury uzb vat vct ven vgb vnm
  vut wlf wsm yem zaf zmb zwe`.trim(),
)
const otherNames = words(
  'uk england scotland wales northernireland greatbritain holland uae türkei burma czechrepublic southkorea',
)

/** The languages in which a country's name is known. */
const languages = ['en', 'es', 'fr', 'de', 'it', 'pt', 'nl']

let foreign: ReadonlySet<string> | undefined

/** The codes and names of other countries, folded. Built when the first listing has a country that is not `home`. */
function buildForeign(): ReadonlySet<string> {
  const letters = Array.from({ length: 26 }, (_, at) => String.fromCharCode(97 + at))
  const codes = letters.flatMap((first) => letters.map((second) => first + second)).filter((code) => !home.has(code))
  const named = languages.flatMap((language) => {
    const names = new Intl.DisplayNames(language, { type: 'region', fallback: 'none' })
    return codes.flatMap((code) => {
      const name = names.of(code.toUpperCase())
      return name === undefined ? [] : [code, foldPlaceName(name)]
    })
  })
  return new Set([...named, ...threeLetters, ...otherNames.map(foldPlaceName)])
}

/** What a country's code may have between its letters. */
const dots = /[.\s]+/g
const charsMax = 60

/** Whether `country` is another country. A text that is no country, or the listing's state once more, says nothing. */
export function isAbroad(country: string | null | undefined, state?: string | null): boolean {
  if (!country || country.length > charsMax) return false
  const code = country.replace(dots, '').toLowerCase()
  if (home.has(code) || code === state?.replace(dots, '').toLowerCase()) return false
  foreign ??= buildForeign()
  if (code.length <= 3) return foreign.has(code)
  const name = foldPlaceName(country)
  return foreign.has(name) && findStateCode(name) === undefined
}
