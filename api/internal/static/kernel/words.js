/**
 * Words in the operator's language. English stands where it is used; Indonesian is in words.id.js, by the English, and for
 * the configuration rows in words.rows.id.js.
 * What the service itself words (a setting's meaning, an error) is looked up in the same way, and stays English if unknown.
 */

import { preferences } from "./preferences.js";
import { INDONESIAN } from "./words.id.js";
import { ROWS } from "./words.rows.id.js";

const DICTIONARY = { ...INDONESIAN, ...ROWS };

/** Say something: `t("{n} min", { n: 3 })`. */
export function t(english, values = {}) {
  const words = (preferences.language === "id" && DICTIONARY[english]) || english;
  return words.replaceAll(/\{(\w+)\}/g, (whole, name) => (name in values ? String(values[name]) : whole));
}
