/**
 * The texts of the control center in Indonesian: words.id.js has those of the pages, and words.core.js those of states
 * and cause tags. The service answers the words of settings in the operator's language.
 */

import { CORE_WORDS } from "./words.core.js";
import { INDONESIAN } from "./words.id.js";

export const DICTIONARY = { ...INDONESIAN, ...CORE_WORDS };
