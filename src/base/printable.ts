/**
 * Characters that are invisible or change how their neighbours look: a terminal obeys some, others reverse a line. Imported
 * text may hold them.
 */

/**
 * C0, DEL and C1; the marks, embeddings and isolates of bidirectional text; separators of lines and paragraphs; what is shown as nothing,
 * so that two texts look alike.
 */
export const unprintable = /[\p{Cc}\p{Bidi_Control}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/u

/** The JSON escape of a character. */
export const spell = (character: string): string =>
  character.replace(/./gs, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)

/** For a name that people compare by eye. */
export const isPlainToSee = (text: string): boolean => !unprintable.test(text)
export const notPlainToSee = {
  error: 'holds a control character, or one that is invisible or changes the direction of text',
}

const each = new RegExp(unprintable, 'gu')
const unseen = /[\p{Bidi_Control}\p{Default_Ignorable_Code_Point}]/gu

/** Without what is shown as nothing, so that texts that look alike are one. */
export const withoutUnseen = (text: string): string => text.replace(unseen, '')

/** Shown, not obeyed. JSON stays JSON with the same meaning. */
export const spellOut = (text: string): string => text.replace(each, spell)
