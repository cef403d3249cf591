/** Tables that become cards on a phone: each cell knows its column's name. */

import { h } from "../kernel/dom.js";

/** `columns`: [{ label, cell: (row) => node or text, number?: true }]. */
export function table(caption, columns, rows) {
  const head = columns.map(({ label, number }) =>
    h("th", { scope: "col", role: "columnheader", class: number && "number" }, label),
  );
  const body = rows.map((row) =>
    h(
      "tr",
      { role: "row" },
      columns.map(({ label, cell, number }) =>
        h("td", { role: "cell", "data-label": label, class: number && "number" }, h("span", {}, cell(row) ?? "–")),
      ),
    ),
  );
  // The roles are said because a display other than a table's takes them away.
  return h(
    "table",
    { class: "table", role: "table", "aria-label": caption },
    h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, head)),
    h("tbody", { role: "rowgroup" }, body),
  );
}

/** Facts about one thing: [[name, value]]; what is false in their place is left out. */
export const facts = (pairs) =>
  h(
    "dl",
    { class: "facts" },
    pairs.filter(Boolean).map(([name, value]) => [h("dt", {}, name), h("dd", {}, value ?? "–")]),
  );
