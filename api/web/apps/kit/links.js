/** Links that several screens have. */

import { h } from "/try/shared/dom.js";
import { t } from "/try/shared/words.js";
import { icon } from "./icons.js";

/** The arrow at the left of a screen's head. */
export const backLink = (href) => h("a", { class: "icon-button", href, "aria-label": t("Back") }, icon("back"));

/** A row of a list that leads somewhere. */
export const rowLink = (href, start, title, text, end = icon("next")) =>
  h(
    "a",
    { class: "row-link", href },
    start,
    h("span", { class: "row-main" }, h("strong", { dir: "auto" }, title), text && h("small", { dir: "auto" }, text)),
    end,
  );

/** Return the first letter of a name as people see it: an emoji or a letter with its accents is one. */
export function firstLetter(name) {
  const trimmed = name.trim();
  const [first] = Intl.Segmenter ? new Intl.Segmenter().segment(trimmed) : [{ segment: [...trimmed][0] ?? "" }];
  return (first?.segment ?? "").toUpperCase();
}

/** The circle with the first letter of a name; `online` adds a mark for a mitra who is online. */
export const avatar = (name, online = false) =>
  h("span", { class: `avatar ${online ? "online" : ""}`, "aria-hidden": "true" }, firstLetter(name ?? "?"));
