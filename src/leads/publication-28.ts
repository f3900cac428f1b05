/**
 * How the United States Postal Service abbreviates the words of an address: Publication 28, appendices B (directions), C1 (street
 * suffixes) and C2 (units). Data for `house.ts`, which recognises an address in different spellings.
 */

/** A line a suffix: its name, its abbreviation, and the other spellings that the publication knows. */
const suffixLines = `
alley aly allee ally
anex anx annex annx
arcade arc
avenue ave av aven avenu avn avnue
bayou byu bayoo
beach bch
bend bnd
bluff blf bluf
bluffs blfs
bottom btm bot bottm
boulevard blvd boul boulv
branch br brnch
bridge brg brdge
brook brk
brooks brks
burg bg
burgs bgs
bypass byp bypa bypas byps
camp cp cmp
canyon cyn canyn cnyn
cape cpe
causeway cswy causwa
center ctr cen cent centr centre cnter cntr
centers ctrs
circle cir circ circl crcl crcle
circles cirs
cliff clf
cliffs clfs
club clb
common cmn
commons cmns
corner cor
corners cors
course crse
court ct
courts cts
cove cv
coves cvs
creek crk
crescent cres crsent crsnt
crest crst
crossing xing crssng
crossroad xrd
crossroads xrds
curve curv
dale dl
dam dm
divide dv div dvd
drive dr driv drv
drives drs
estate est
estates ests
expressway expy exp expr express expw
extension ext extn extnsn
extensions exts
falls fls
ferry fry frry
field fld
fields flds
flat flt
flats flts
ford frd
fords frds
forest frst forests
forge frg forg
forges frgs
fork frk
forks frks
fort ft frt
freeway fwy freewy frway frwy
garden gdn gardn grden grdn
gardens gdns grdns
gateway gtwy gatewy gatway gtway
glen gln
glens glns
green grn
greens grns
grove grv grov
groves grvs
harbor hbr harb harbr hrbor
harbors hbrs
haven hvn
heights hts ht
highway hwy highwy hiway hiwy hway
hill hl
hills hls
hollow holw hllw hollows holws
inlet inlt
island is islnd
islands iss islnds
isle isle isles
junction jct jction jctn junctn juncton
junctions jcts jctns
key ky
keys kys
knoll knl knol
knolls knls
lake lk
lakes lks
landing lndg lndng
lane ln lanes
light lgt
lights lgts
loaf lf
lock lck
locks lcks
lodge ldg ldge lodg
loop loop loops
manor mnr
manors mnrs
meadow mdw
meadows mdws medows
mill ml
mills mls
mission msn missn mssn
motorway mtwy
mount mt mnt
mountain mtn mntain mntn mountin mtin
mountains mtns mntns
neck nck
orchard orch orchrd
oval oval ovl
overpass opas
park park prk parks
parkway pkwy parkwy pkway pky parkways pkwys
passage psge
path path paths
pike pike pikes
pine pne
pines pnes
place pl
plain pln
plains plns
plaza plz plza
point pt
points pts
port prt
ports prts
prairie pr prr
radial radl rad radiel
ranch rnch ranches rnchs
rapid rpd
rapids rpds
rest rst
ridge rdg rdge
ridges rdgs
river riv rvr rivr
road rd
roads rds
route rte
shoal shl
shoals shls
shore shr shoar
shores shrs shoars
skyway skwy
spring spg spng sprng
springs spgs spngs sprngs
spur spur spurs
square sq sqr sqre squ
squares sqs sqrs
station sta statn stn
stravenue stra strav straven stravn strvn strvnue
stream strm streme
street st strt str
streets sts
summit smt sumit sumitt
terrace ter terr
throughway trwy
trace trce traces
track trak tracks trk trks
trafficway trfy
trail trl trails trls
trailer trlr trlrs
tunnel tunl tunel tunls tunnels tunnl
turnpike tpke trnpk turnpk
underpass upas
union un
unions uns
valley vly vally vlly
valleys vlys
viaduct via vdct viadct
view vw
views vws
village vlg vill villag villg villiage
villages vlgs
ville vl
vista vis vist vst vsta
walk walk walks
way way wy
well wl
wells wls
`

const suffixRows = suffixLines
  .trim()
  .split('\n')
  .map((line) => line.split(' '))

/** Every spelling of a suffix, also plurals if the publication has one abbreviation for both, to its abbreviation. */
export const suffixes: ReadonlyMap<string, string> = new Map(
  suffixRows.flatMap((spellings) => spellings.map((spelling) => [spelling, spellings[1] as string])),
)

/** The names of suffixes alone, to their abbreviations. */
export const suffixNames: ReadonlyMap<string, string> = new Map(
  suffixRows.map(([name, abbreviation]) => [name as string, abbreviation as string]),
)

export const directions: ReadonlyMap<string, string> = new Map(
  Object.entries({
    north: 'n',
    south: 's',
    east: 'e',
    west: 'w',
    northeast: 'ne',
    northwest: 'nw',
    southeast: 'se',
    southwest: 'sw',
  }).flatMap(([name, letters]) => [
    [name, letters],
    [letters, letters],
  ]),
)

/** Words for a unit that a number or letter follows. */
export const unitWords: ReadonlySet<string> = new Set(
  `apartment apt department dept hangar hngr key lot pier room rm slip space spc stop suite ste trailer trlr unit`.split(
    ' ',
  ),
)

/** Words for a unit that any word may follow (`Unit Studio`), since no street ends in them. */
export const namedUnitWords: ReadonlySet<string> = new Set(['apartment', 'apt', 'suite', 'ste', 'unit'])

/** Words for a part of a building, which count, unlike the others. */
export const wholeUnitWords: ReadonlyMap<string, string> = new Map([
  ['building', 'bldg'],
  ['bldg', 'bldg'],
  ['floor', 'fl'],
  ['fl', 'fl'],
])

/** Words for a unit that stand alone, to their abbreviations; a number or letter may follow some of them too. */
export const loneUnitWords: ReadonlyMap<string, string> = new Map([
  ['basement', 'bsmt'],
  ['bsmt', 'bsmt'],
  ['front', 'frnt'],
  ['frnt', 'frnt'],
  ['lobby', 'lbby'],
  ['lbby', 'lbby'],
  ['lower', 'lowr'],
  ['lowr', 'lowr'],
  ['office', 'ofc'],
  ['ofc', 'ofc'],
  ['penthouse', 'ph'],
  ['ph', 'ph'],
  ['rear', 'rear'],
  ['side', 'side'],
  ['upper', 'uppr'],
  ['uppr', 'uppr'],
])
