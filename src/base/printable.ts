/**
 * Characters that are invisible or change how their neighbours look: a terminal obeys some, others reverse a line. Imported
 * text may hold them.
 */

/** C0, DEL and C1; the marks, embeddings and isolates of bidirectional text; separators of lines and paragraphs. */
export const unprintable = /[\p{Cc}\p{Bidi_Control}\p{Zl}\p{Zp}]/u

/** The JSON escape of a character from `unprintable`, each of which is one UTF-16 unit. */
export const spell = (character: string): string => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`

/** For a name that people compare by eye. */
export const isPlainToSee = (text: string): boolean => !unprintable.test(text)
export const notPlainToSee = { error: 'holds a control character, or one that changes the direction of text' }

const each = new RegExp(unprintable, 'gu')

/** Shown, not obeyed. JSON stays JSON with the same meaning. */
export const spellOut = (text: string): string => text.replace(each, spell)
