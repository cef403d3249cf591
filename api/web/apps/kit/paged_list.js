/** Lists that are read page by page. */

import { h } from "/try/shared/dom.js";
import { t } from "/try/shared/words.js";
import { actionButton, showProblem } from "./buttons.js";

/** Make a list that is read page by page. `read(cursor)` returns a page, `row(item)` a node, `empty` the node without any. */
export function pagedList(scope, { read, row, empty }) {
  const list = h("ul", { class: "rows", hidden: true });
  const place = h("div", { class: "stack" }, h("p", { class: "empty" }, t("Loading")));
  let cursor;
  const more = actionButton(t("Show more"), () => next(), { kind: "quiet", hidden: true });

  async function next() {
    const page = await read(cursor);
    if (scope.ended) return;
    cursor = page.next_cursor;
    list.append(...page.items.map((item) => h("li", {}, row(item))));
    list.hidden = list.children.length === 0;
    more.hidden = cursor === null;
    place.replaceChildren(list.hidden ? empty : list, more);
  }

  next().catch((error) => {
    if (scope.ended) return;
    place.replaceChildren();
    showProblem(place, error);
  });
  return place;
}
