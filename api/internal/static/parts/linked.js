/** Names of people, and links that are shown only to operators who may open them. */

import { h } from "../kernel/dom.js";
import { address } from "../kernel/router.js";
import { session } from "../kernel/session.js";
import { t } from "../kernel/words.js";

/** A person's name, or a text that says that they have none. */
export const nameOf = (person) => person?.display_name ?? t("no name");

/** A link if the role may read the area, else only its text. */
export const linked = (area, path, words, look) =>
  session.may(area) ? h("a", { href: address(path), class: look }, words) : h("span", { class: look }, words);
