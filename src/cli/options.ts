/** Values of options that several commands take. */
import { InvalidArgumentError } from 'commander'

export function parseCount(text: string): number {
  if (!/^[1-9]\d{0,8}$/.test(text)) throw new InvalidArgumentError('It is a whole number, 1 or more.')
  return Number(text)
}
