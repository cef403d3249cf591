/**
 * Texts in the reader's language. The English text is in the code where it is used, and is the key of a dictionary of
 * Indonesian texts. words.id.js has those of the shared modules; a page adds its own. An unknown text stays English.
 */

import { preferences } from "./preferences.js";
import { INDONESIAN } from "./words.id.js";

const dictionary = { ...INDONESIAN };

/** Add English text -> Indonesian text, before the page shows anything. */
export const addWords = (words) => Object.assign(dictionary, words);

/** Translate a text: `t("{n} min", { n: 3 })`. */
export function t(english, values = {}) {
  const words = (preferences.language === "id" && dictionary[english]) || english;
  return words.replaceAll(/\{(\w+)\}/g, (whole, name) => (name in values ? String(values[name]) : whole));
}
