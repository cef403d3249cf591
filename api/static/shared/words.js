/**
 * Texts in the operator's language. The English text is in the code where it is used. words.id.js has the Indonesian
 * for each English text, words.rows.id.js that of the configuration rows, and words.core.js that of states and
 * cause tags. Texts that the service sends (such as the meaning of a setting) are looked up in the same way; unknown ones stay English.
 */

import { CORE_WORDS } from "../kernel/words.core.js";
import { INDONESIAN } from "../kernel/words.id.js";
import { ROWS } from "../kernel/words.rows.id.js";
import { preferences } from "./preferences.js";

const DICTIONARY = { ...INDONESIAN, ...ROWS, ...CORE_WORDS };

/** Translate a text: `t("{n} min", { n: 3 })`. */
export function t(english, values = {}) {
  const words = (preferences.language === "id" && DICTIONARY[english]) || english;
  return words.replaceAll(/\{(\w+)\}/g, (whole, name) => (name in values ? String(values[name]) : whole));
}
