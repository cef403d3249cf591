/** Names of people, and links that only those get who may go there. */

import { h } from "../kernel/dom.js";
import { address } from "../kernel/router.js";
import { session } from "../kernel/session.js";
import { t } from "../kernel/words.js";

/** A person's name, or that there is none. */
export const nameOf = (person) => person?.display_name ?? t("no name");

/** A link for a role that may read the area; the words alone for others. */
export const linked = (area, path, words, look) =>
  session.may(area) ? h("a", { href: address(path), class: look }, words) : h("span", { class: look }, words);
