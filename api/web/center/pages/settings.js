/**
 * Settings: each with its meaning, default, bounds, unit and last change. Unused settings are in a group at the end.
 */

import { api } from "../kernel/api.js";
import { session } from "../kernel/session.js";
import { sure, withDifference } from "../parts/changes.js";
import { localInput } from "../parts/list.js";
import { Page } from "../parts/page.js";
import { chip } from "../parts/status.js";
import { h } from "../shared/dom.js";
import { decimal, field, form, integer, select, tick } from "../shared/form.js";
import { number } from "../shared/format.js";
import { time } from "../shared/time.js";
import { toast } from "../shared/toast.js";
import { t } from "../shared/words.js";

const PATH = "/internal/config";

/** The groups of rows, in the service's order: [name, rows]. */
const grouped = (rows) =>
  [...new Set(rows.map((row) => row.group))].map((group) => [group, rows.filter((row) => row.group === group)]);

/** A formatted value with its unit. */
function told(row, value) {
  if (value === null) return t("none");
  if (typeof value === "boolean") return value ? t("yes") : t("no");
  if (typeof value === "number") return `${number(value)} ${row.unit ?? ""}`.trim();
  return typeof value === "string" ? (row.choice_labels[value] ?? value) : JSON.stringify(value);
}

const isAllowed = ({ min, max }, value) => typeof value === "number" && value >= min && value <= max;

/** The input of a row, and the function that reads its value from the form. */
function control(row) {
  const name = "value";
  if (row.key === "support_handles") return handles(row);
  if (row.key === "maintenance") return notice(row);
  if (row.key.startsWith("minimum_version_")) {
    const input = h("input", { name, value: row.value ?? "", inputmode: "decimal", autocomplete: "off" });
    const hint = t("A version such as 1.4.0; blank for none.");
    return {
      shown: field(row.label, input, hint, { hidden: true }),
      read: (data) => data.get(name).trim() || null,
    };
  }
  if (row.choices.length) {
    const options = row.choices.map((one) => [one, row.choice_labels[one]]);
    return {
      shown: field(row.label, select({ name }, options, row.value), null, { hidden: true }),
      read: (data) => data.get(name),
    };
  }
  if (typeof row.default === "boolean") {
    return { shown: tick(t("Enabled"), { name, checked: row.value }), read: (data) => data.has(name) };
  }
  if (row.key === "business_time_zone") {
    const input = h("input", { name, required: true, value: row.value, autocomplete: "off" });
    return {
      shown: field(row.label, input, t("A time zone such as Asia/Jakarta."), { hidden: true }),
      read: (data) => data.get(name).trim(),
    };
  }
  if (typeof row.default === "number") {
    const bounds = t("{min} to {max} {unit}", { min: number(row.min), max: number(row.max), unit: row.unit ?? "" });
    const [inputmode, read] = row.fraction ? ["decimal", decimal] : ["numeric", integer];
    const input = h("input", { name, required: true, inputmode, value: row.value });
    const asked = field(row.label, input, bounds, { hidden: true });
    const shown = withDifference(asked, row.value, read, (value) => told(row, value));
    return { shown, read: (data) => read(data.get(name)) };
  }
  return null;
}

function handles(row) {
  const parts = ["primary", "secondary"];
  const shown = parts.map((part) =>
    h(
      "fieldset",
      {},
      h("legend", {}, t(part)),
      field(t("Label"), h("input", { name: `${part}-label`, value: row.value[part].label })),
      field(t("Address"), h("input", { name: `${part}-deeplink`, value: row.value[part].deeplink, inputmode: "url" })),
    ),
  );
  const one = (data, part) => ({
    label: data.get(`${part}-label`).trim(),
    deeplink: data.get(`${part}-deeplink`).trim(),
  });
  return { shown, read: (data) => Object.fromEntries(parts.map((part) => [part, one(data, part)])) };
}

/** The maintenance notice; without messages there is none. */
function notice(row) {
  const { message_id, message_en, until } = row.value ?? {};
  const shown = h(
    "fieldset",
    {},
    field(t("Indonesian"), h("textarea", { name: "message_id", lang: "id", rows: 2 }, message_id)),
    field(t("English"), h("textarea", { name: "message_en", lang: "en", rows: 2 }, message_en)),
    field(
      t("Until"),
      h("input", { name: "until", type: "datetime-local", value: until ? localInput(until) : "" }),
      t("Blank until you remove it. To remove the notice, clear both texts."),
    ),
  );
  const read = (data) => {
    const messages = { message_id: data.get("message_id").trim(), message_en: data.get("message_en").trim() };
    if (!messages.message_id && !messages.message_en) return null;
    return { ...messages, until: data.get("until") ? new Date(data.get("until")).toISOString() : null };
  };
  return { shown, read };
}

class SettingsPage extends Page {
  get heading() {
    return t("Settings");
  }

  load(signal) {
    return api.get(PATH, {}, signal);
  }

  render({ items }) {
    const unused = items.filter((row) => !row.used);
    return [
      h(
        "p",
        { class: "quiet" },
        t("A change takes effect within two seconds, for sessions and requests that start after it."),
      ),
      grouped(items.filter((row) => row.used)).map(([name, rows]) =>
        h(
          "section",
          { class: "card" },
          h("h2", {}, name),
          rows[0].key.startsWith("retention_") &&
            h(
              "p",
              { class: "quiet" },
              t("A shorter time takes effect a day after the change. Until then you can undo it."),
            ),
          rows.map((row) => this.#row(row)),
        ),
      ),
      h(
        "details",
        { class: "card" },
        h("summary", {}, t("No effect ({n})", { n: unused.length })),
        unused.map((row) => this.#row(row)),
      ),
    ];
  }

  #row(row) {
    const made = h("div", { class: "setting", "data-key": row.key });
    this.#fill(made, row);
    return made;
  }

  #fill(made, row) {
    const changed = JSON.stringify(row.value) !== JSON.stringify(row.default);
    const about = h(
      "div",
      { class: "about" },
      h("h3", {}, row.label, changed && [" ", chip(t("changed"), "busy")]),
      h("p", {}, row.meaning),
      h("small", {}, t("Default: {value}", { value: told(row, row.default) })),
      row.updated_by &&
        h("small", {}, t("Last changed by {name}", { name: row.updated_by.display_name }), ", ", time(row.updated_at)),
    );
    made.replaceChildren(about, this.#value(made, row));
  }

  #value(made, row) {
    const can = row.used && session.may(row.area, "write") ? control(row) : null;
    if (!can) return h("p", {}, told(row, row.value));
    return form({
      label: row.label,
      fields: [can.shown],
      submit: t("Save"),
      send: async (data) => {
        const value = can.read(data);
        if (isAllowed(row, value)) await sure([[row.value, value, (one) => told(row, one)]]);
        const saved = await api.put(`${PATH}/${row.key}`, { value });
        this.#fill(made, saved);
        toast(t("Saved."));
        made.querySelector("input, select, textarea")?.focus();
      },
    });
  }
}

customElements.define("settings-page", SettingsPage);
