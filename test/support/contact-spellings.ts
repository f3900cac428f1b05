/** Spellings of one phone number and of one e-mail address that a person reads as them (contract 4.19). */

export const phone = '5125550143'
export const email = 'zanzibar.owner+home@example.com'

/** Each is a whole cell, or stands in a text. */
export const phoneSpellings = [
  ...['5125550143', '15125550143', '+15125550143', '+1 512 555 0143', '1-512-555-0143', '512-555-0143', '512.555.0143'],
  ...['(512) 555-0143', '(512)555-0143', '+1 (512) 555-0143', '512/555-0143', '512 555 0143', '512_555_0143', '512~555~0143'],
  ...['0015125550143', '001 512 555 0143', '011 1 512 555 0143', '00 1 (512) 555-0143', 'tel:+1-512-555-0143', '#512-555-0143'],
  ...['512\u2010555\u20100143', '512\u2013555\u20130143', '512\u2014555\u20140143', '512\u2212555\u22120143', '512\u00ad555\u00ad0143'],
  ...['512\u00a0555\u00a00143', '512\u2009555\u20090143', '512\u200b555\u200b0143', '\u202a512-555-0143\u202c', '5\u200d12\u20605550143'],
  ...['５１２５５５０１４３', '（５１２）５５５－０１４３', '＋１　５１２　５５５　０１４３', '٥١٢-٥٥٥-٠١٤٣', '५१२५५५०१४३', '𝟓𝟏𝟐-𝟓𝟓𝟓-𝟎𝟏𝟒𝟑'],
  ...['5️⃣1️⃣2️⃣5️⃣5️⃣5️⃣0️⃣1️⃣4️⃣3️⃣', '⑤①②-⑤⑤⑤-⓪①④③', '512*555*0143', '512|555|0143', '512=555=0143', '512:555:0143', '512,555,0143'],
  ...['512 — 555 — 0143', '512•555•0143', '[512] 555 [0143]', '{512}555.0143', '"512"-"555"-"0143"', '51 25 55 01 43', '5 1 2 5 5 5 0 1 4 3'],
  ...['512%20555%200143', '%2B15125550143', '512&nbsp;555&nbsp;0143', '512&#45;555&#45;0143', '&#53;125550143'],
] as const // biome-ignore format: data

export const emailSpellings = [
  ...['zanzibar.owner+home@example.com', 'Zanzibar.Owner+Home@Example.COM', ' zanzibar.owner+home@example.com '],
  ...['<zanzibar.owner+home@example.com>', 'mailto:zanzibar.owner+home@example.com', 'MAILTO:Zanzibar.Owner+home@example.com?subject=Hi'],
  ...['zanzibar.owner+home @ example.com', 'zanzibar.owner+home@ example.com', 'zanzibar.owner+home\u00a0@\u00a0example.com'],
  ...['zanzibar.owner+home[at]example.com', 'zanzibar.owner+home (at) example.com', 'zanzibar.owner+home {AT} example.com', 'zanzibar.owner+home[at]example[dot]com'],
  ...['ｚａｎｚｉｂａｒ.ｏｗｎｅｒ＋ｈｏｍｅ＠ｅｘａｍｐｌｅ．ｃｏｍ', 'zanzibar.owner+home＠example.com', 'zanzibar.owner+home﹫example.com'],
  ...['zanzibar\u200b.owner+home@example.com', 'zanzibar\u00ad.owner+home@exam\u200dple.com', '\ufeffzanzibar.owner+home@example.com', '\u202ezanzibar.owner+home@example.com\u202c'],
  ...['zanzibar.owner%2Bhome%40example.com', 'mailto:zanzibar.owner+home%40example.com', 'zanzibar.owner+home&#64;example.com', 'zanzibar.owner&plus;home&commat;example&period;com'],
  ...['“zanzibar.owner+home@example.com”', "'zanzibar.owner+home@example.com'", 'zanzibar.owner+home@example.com.', '𝐳anzibar.owner+home@example.com'],
] as const // biome-ignore format: data

/** What no person reads as them. */
export const others = [
  ...['5125550144', '512-555-014', '51255501430', '+44 20 7946 0143'],
  ...['owner+home@example.com', 'zanzibar.owner@example.com', 'zanzibar.owner+home@example.org', 'zanzibarowner+home@example.com'],
  ...['zanzibar.owner+home@sub.example.com', 'zanzibar.owner+homes@example.com', 'zanzibar owner home example com'],
] as const // biome-ignore format: data
