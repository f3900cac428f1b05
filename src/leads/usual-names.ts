/**
 * The usual names of a listing's fields in exports, and the looks of their values: from these a message suggests `--map` options. A name
 * is in lower case and without punctuation, the most telling first.
 */
import type { Vocabulary } from '../records/suggest-map.ts'
import { type LeadField, leadFields } from './lead.ts'

const words = (text: string) => text.split(' ')

const usualNames: Partial<Record<LeadField, readonly string[]>> = {
  href: words('propertyurl listingurl detailurl listinglink detailsurl pageurl canonicalurl permalink url link detaillink sourceurl weburl posturl adurl hdpurl externalurl website'),
  postalCode: words('zipcode zip postalcode postcode postalcodezip zip5 addresszip addresspostalcode propertyzip propertyzipcode zippostalcode postal'),
  price: words('listprice askingprice listingprice asking price currentprice saleprice salesprice priceusd amount offersprice'),
  rawListingDate: words('listdate listingdate datelisted listeddate dateposted posteddate postedon listedon listingcontractdate onmarketdate firstseen publishedat createdat'),
  sqft: words('livingarea squarefeet squarefootage sqfeet sqft livingareasqft livingsqft buildingareatotal floorsize homesize interiorsqft area'),
  bedrooms: words('beds bedroomstotal numberofbedrooms bedroomcount numbedrooms bed bedroom br bds'),
  bathrooms: words('baths bathroomstotalinteger bathroomstotaldecimal bathroomstotal numberofbathroomstotal numberofbathrooms bathroomcount bath bathroom fullbaths ba'),
  yearBuilt: words('yearbuilt built builtin builtyear constructionyear yrbuilt'),
  description: words('description publicremarks remarks listingdescription fulldescription text details body comments'),
  propertyType: words('propertytype propertysubtype hometype housetype style propertycategory category type'),
  contactName: words('ownername sellername contactname owner seller contact postedby agentname listagentfullname'),
  contactPhone: words('ownerphone sellerphone contactphone phonenumber phone telephone phone1 tel mobile agentphone'),
  contactEmail: words('owneremail selleremail contactemail email emailaddress mail agentemail'),
  fullAddress: words('fulladdress formattedaddress unparsedaddress addressfull displayaddress'),
  address: words('streetaddress fullstreetline street address address1 addressline1 addressline streetline propertyaddress addr'),
  secondAddress: words('unitnumber unit apt suite address2 addressline2'),
  city: words('addresslocality town locality municipality propertycity addresscity'),
  state: words('stateorprovince addressregion statecode province region propertystate addressstate st'),
  country: words('addresscountry countrycode'),
} // biome-ignore format: a line a field

const isUrl = (text: string) => /^https?:\/\/\S+$/i.test(text) && !/\.(jpe?g|png|webp|gif|svg|pdf)([?#]|$)/i.test(text)
const isNumber = (text: string) => /^[^\d]{0,5}[\d.,\s]*\d[^\d]{0,12}$/.test(text)

const looksLike: Partial<Record<LeadField, (text: string) => boolean>> = {
  href: isUrl,
  postalCode: (text) => /^([a-z]{2},? )?(\d{5}(-?\d{4})?(\.0+)?|[a-z]\d[a-z][ -]?\d[a-z]\d)$/i.test(text.trim()),
  price: isNumber,
  sqft: isNumber,
  bedrooms: isNumber,
  bathrooms: isNumber,
  yearBuilt: (text) => /^(1[6-9]|20)\d\d(\.0+)?$/.test(text.trim()),
  rawListingDate: (text) => /\d/.test(text),
  contactPhone: (text) => /^\+?[\d(][\d\s().+x-]{6,}$/i.test(text.trim()),
  contactEmail: (text) => /^\S+@\S+\.\S+$/.test(text.trim()),
}

const distinctShare = (values: readonly string[]) => new Set(values).size / values.length
const roundShare = (values: readonly string[]) => values.filter((value) => value.endsWith('00')).length / values.length

export const leadVocabulary: Vocabulary<LeadField> = {
  fields: leadFields.map(({ name }) => name),
  usualNames,
  looksLike,
  // URLs, numbers and names of something else than the listing; a county is spelt nearly as a country
  belongsElsewhere: /photo|image|img|thumb|tour|video|logo|map|sold|tax|assess|estimat|lot|hoa|rent|half|county/i,
  // URLs that differ, or codes that are no round prices
  byValuesAlone: {
    href: (values) => (distinctShare(values) > 0.9 ? 0.2 : 0),
    postalCode: (values) => (roundShare(values) > 1 / 4 ? 0 : 0.1),
  },
}
