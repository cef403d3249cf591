/**
 * Sends only the fields that were changed in a dialog, because another operator may have changed the rest in the same
 * time.
 */

import { api } from "../kernel/api.js";

const plain = (value) =>
  value !== null && typeof value === "object" ? JSON.stringify(Object.entries(value).sort()) : value;

/**
 * Send the fields that differ from `before`, the values at the opening of the dialog. Without a difference nothing is
 * sent.
 */
export function saveChanges(path, before, values) {
  const changed = Object.entries(values).filter(([name, value]) => plain(value) !== plain(before[name]));
  return changed.length ? api.patch(path, Object.fromEntries(changed)) : before;
}
