/**
 * The texts of the control center in Indonesian: words.id.js has those of the pages, words.rows.id.js those of the
 * configuration rows, and words.core.js those of states and cause tags. Texts that the service sends (such as the
 * meaning of a setting) are in it too.
 */

import { CORE_WORDS } from "./words.core.js";
import { INDONESIAN } from "./words.id.js";
import { ROWS } from "./words.rows.id.js";

export const DICTIONARY = { ...INDONESIAN, ...ROWS, ...CORE_WORDS };
