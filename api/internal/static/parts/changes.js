/** Only what was changed in a dialog is sent: a colleague may have changed the rest meanwhile. */

import { api } from "../kernel/api.js";

const plain = (value) =>
  value !== null && typeof value === "object" ? JSON.stringify(Object.entries(value).sort()) : value;

/** Send what differs from `before`, what the dialog was opened with; nothing is sent when nothing does. */
export function saveChanges(path, before, values) {
  const changed = Object.entries(values).filter(([name, value]) => plain(value) !== plain(before[name]));
  return changed.length ? api.patch(path, Object.fromEntries(changed)) : before;
}
