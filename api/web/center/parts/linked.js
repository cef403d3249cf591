/** Names of people, and links that are shown only to operators who may open them. */

import { session } from "../kernel/session.js";
import { h } from "../shared/dom.js";
import { address } from "../shared/router.js";
import { t } from "../shared/words.js";

/** A person's name, or a text that says that they have none. */
export const nameOf = (person) => person?.display_name ?? t("no name");

/** A link if the role may read the area, else only its text. */
export const linked = (area, path, words, look) =>
  session.may(area) ? h("a", { href: address(path), class: look }, words) : h("span", { class: look }, words);

/** A text that a person wrote. Without `customers.pii` the service answers only how long it is: "12 words, hidden". */
export function written(text) {
  const [, words] = /^(\d+) words?, hidden$/.exec(text) ?? [];
  return words === undefined ? text : h("em", {}, t("{n} words, hidden", { n: words }));
}
