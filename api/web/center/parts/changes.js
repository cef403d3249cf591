/**
 * What an operator has changed: sends only the fields that were changed in a dialog, because another operator may have
 * changed the rest in the same time; shows the difference of a number while it is written, and asks again before a large
 * one is saved.
 */

import { ApiError, api } from "../kernel/api.js";
import { confirm } from "../shared/dialog.js";
import { h } from "../shared/dom.js";
import { number, percent } from "../shared/format.js";
import { t } from "../shared/words.js";

const LARGE = 0.5; // a change by more than this part of the old value is asked about

export const plain = (value) =>
  value !== null && typeof value === "object" ? JSON.stringify(Object.entries(value).sort()) : value;

/**
 * Send the fields that differ from `before`, the values at the opening of the dialog. Without a difference nothing is
 * sent.
 */
export function saveChanges(path, before, values) {
  const changed = Object.entries(values).filter(([name, value]) => plain(value) !== plain(before[name]));
  return changed.length ? api.patch(path, Object.fromEntries(changed)) : before;
}

/** The formatted value of a setting, with its unit. `row` is the setting as the service answers it. */
export function settingValue(row, value) {
  if (value === null) return t("none");
  if (typeof value === "boolean") return value ? t("yes") : t("no");
  if (typeof value === "number") return `${number(value)} ${row.unit ?? ""}`.trim();
  return typeof value === "string" ? (row.choice_labels[value] ?? value) : JSON.stringify(value);
}

/** "Rp 48.000 → Rp 48 (−99.9%)"; empty without a change. `say` formats a number. */
export function difference(before, after, say) {
  if (typeof after !== "number" || after === before) return "";
  const share = before ? ` (${after > before ? "+" : ""}${percent((after - before) / before)})` : "";
  return `${say(before)} → ${say(after)}${share}`;
}

/** Show in a field of a number how the written number differs from `before()`. `read` parses it. Returns the field. */
export function withDifference(field, before, read, say) {
  const shown = h("output", { class: "hint" });
  field.addEventListener("input", ({ target }) => {
    shown.textContent = difference(before(), read(target.value), say);
  });
  field.append(shown);
  return field;
}

/** Ask again if any of the changes, [before, after, say], is large. Throws ApiError if the operator does not want it. */
export async function sure(changes) {
  const large = changes.filter(
    ([before, after]) => typeof after === "number" && Math.abs(after - before) > Math.abs(before) * LARGE,
  );
  if (!large.length) return;
  const said = large.map((change) => difference(...change)).join("; ");
  const wanted = await confirm(t("Change by more than half?"), said, t("Save the change"), () => true);
  if (!wanted) throw new ApiError(0, { code: "NOT_WANTED", message: "Nothing was saved. Check the value." });
}
