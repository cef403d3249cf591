/** Tables that become cards on a phone. Each cell has its column's name for that. */

import { h } from "../shared/dom.js";

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
        h(
          "td",
          { role: "cell", "data-label": label, class: number && "number" },
          h("span", { dir: "auto" }, cell(row) ?? "–"),
        ),
      ),
    ),
  );
  // The roles are set because a CSS display other than a table's removes them.
  return h(
    "table",
    { class: "table", role: "table", "aria-label": caption },
    h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, head)),
    h("tbody", { role: "rowgroup" }, body),
  );
}

/** A list of facts: [[name, value]]. False entries are left out. */
export const facts = (pairs) =>
  h(
    "dl",
    { class: "facts" },
    pairs.filter(Boolean).map(([name, value]) => [h("dt", {}, name), h("dd", { dir: "auto" }, value ?? "–")]),
  );
