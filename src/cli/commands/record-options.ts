/** Options that say how the records of files are read: the imports and `validate` take them. */
import { option, RepeatedOption } from '../describe.ts'

export const mapOptions = [
  new RepeatedOption('--map <field=column>', 'read a field from a column or key of another name; may be repeated'),
  option('--map-file <file>', 'a file with a line FIELD=COLUMN or such an option each, # begins a comment; --map wins'),
  option('--encoding <name>', 'the encoding of files that are not in UTF-8, such as windows-1252'),
]

/** Those for listings, in the order of `--help`. */
export const recordOptions = [
  ...mapOptions,
  new RepeatedOption(
    '--where <field=value>',
    'take only records with this value, or FIELD!=VALUE without it; may be repeated',
  ),
  new RepeatedOption('--null <text>', 'a text that means unknown, such as n/a, in any case; may be repeated'),
  option('--strict', 'reject a record with an optional value that cannot be read, instead of taking it as unknown'),
]
