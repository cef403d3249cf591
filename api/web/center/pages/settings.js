/**
 * Settings by group: each with its meaning, default, bounds, unit and last change. A group is saved at once, and shows the
 * difference before. Unused settings are in a group at the end.
 */

import { ApiError, api } from "../kernel/api.js";
import { session } from "../kernel/session.js";
import { difference, plain, settingValue, sure } from "../parts/changes.js";
import { localInput } from "../parts/list.js";
import { Page } from "../parts/page.js";
import { chip } from "../parts/status.js";
import { h } from "../shared/dom.js";
import { decimal, field, form, integer, select, tick } from "../shared/form.js";
import { number } from "../shared/format.js";
import { address } from "../shared/router.js";
import { time } from "../shared/time.js";
import { toast } from "../shared/toast.js";
import { t } from "../shared/words.js";
import { PATH as WHAT_IF } from "./what_if.js";

const PATH = "/internal/config";

/** The groups of rows, in the service's order: [name, rows]. */
const grouped = (rows) =>
  [...new Set(rows.map((row) => row.group))].map((group) => [group, rows.filter((row) => row.group === group)]);

/** The input of a row, and the function that reads its value from the form; null for a row that has none. */
function control(row) {
  const name = row.key;
  if (name === "support_handles") return handles(row);
  if (name === "maintenance") return notice(row);
  if (name.startsWith("minimum_version_")) {
    const input = h("input", { name, value: row.value ?? "", inputmode: "decimal", autocomplete: "off" });
    const hint = t("A version such as 1.4.0; blank for none.");
    return { shown: field(row.label, input, hint, { hidden: true }), read: (data) => data.get(name).trim() || null };
  }
  if (row.choices.length) {
    const options = row.choices.map((one) => [one, row.choice_labels[one]]);
    const shown = field(row.label, select({ name }, options, row.value), null, { hidden: true });
    return { shown, read: (data) => data.get(name) };
  }
  if (typeof row.default === "boolean") {
    const shown = tick(t("Enabled"), { name, checked: row.value, "aria-label": row.label });
    return { shown, read: (data) => data.has(name) };
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
    return { shown: field(row.label, input, bounds, { hidden: true }), read: (data) => read(data.get(name)) };
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
    h("legend", { class: "hidden-label" }, row.label),
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
    const written = data.get("until");
    if (until && written === localInput(until)) return { ...messages, until }; // the input has no seconds
    return { ...messages, until: written ? new Date(written).toISOString() : null };
  };
  return { shown, read };
}

/** A link to the page that simulates a value of a row; null for a row that can't be tried. */
function trial(row) {
  if (!row.triable || !session.may("config")) return null;
  const words = t("Try this value");
  return h("a", { href: tryAddress(row, row.value), "aria-label": `${words}: ${row.label}` }, words);
}

const tryAddress = ({ key }, value) => address(WHAT_IF, { key, value });

const isSame = (one, other) => plain(one) === plain(other);

/** What a change would do, in words; empty without a change. */
function said(row, value) {
  if (isSame(row.value, value)) return "";
  if (typeof row.value === "number") return difference(row.value, value, (one) => settingValue(row, one));
  if (typeof row.default === "object" && row.default !== null) return t("changed");
  return `${settingValue(row, row.value)} → ${settingValue(row, value)}`;
}

const isAllowed = ({ min, max }, value) => typeof value === "number" && value >= min && value <= max;

/** Save one row, if no other operator has changed it. A refusal names the field of the form. */
async function save(row, value) {
  try {
    return await api.patch(`${PATH}/${row.key}`, { value, updated_at: row.updated_at ?? undefined });
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    const fields = error.details.fields?.map((one) => ({ ...one, field: row.key }));
    throw new ApiError(error.status, { ...error, message: error.message, details: { ...error.details, fields } });
  }
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
    const find = h("input", { type: "search", name: "q", value: this.query.get("q") ?? "", autocomplete: "off" });
    const none = h("p", { class: "card empty", hidden: true }, t("No setting has these words."));
    const content = [
      h("div", { class: "filters card", role: "search" }, field(t("Search settings"), find)),
      h(
        "p",
        { class: "quiet" },
        t("A change takes effect within two seconds, for sessions and requests that start after it."),
      ),
      grouped(items.filter((row) => row.used)).map(([name, rows]) => this.#group(name, rows)),
      h(
        "details",
        { class: "card" },
        h("summary", {}, t("No effect ({n})", { n: unused.length })),
        unused.map((row) => h("div", { class: "setting", "data-key": row.key }, this.#about(row), this.#value(row))),
      ),
      none,
    ];
    const shown = content.flat(2);
    find.addEventListener("input", () => this.#find(find.value, shown, none));
    if (find.value) this.#find(find.value, shown, none);
    return content;
  }

  /** Show the settings that have all the words in their name, meaning or key, and the groups that have any. */
  #find(text, content, none) {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    let any = false;
    for (const group of content.filter((one) => one.matches("section, details"))) {
      for (const setting of group.querySelectorAll(".setting")) {
        const about = `${setting.dataset.key} ${setting.textContent}`.toLowerCase();
        setting.hidden = !words.every((word) => about.includes(word));
      }
      group.hidden = !group.querySelector(".setting:not([hidden])");
      if (group.matches("details")) group.open = words.length > 0;
      any ||= !group.hidden;
    }
    none.hidden = any;
  }

  #group(name, rows) {
    const made = h("section", { class: "card", "aria-label": name });
    this.#fill(made, name, rows);
    return made;
  }

  #fill(group, name, rows) {
    const can = session.may(rows[0].area, "write");
    const parts = rows.map((row) => ({
      row,
      ...(can && control(row)),
      said: h("output", { class: "hint" }),
      trial: trial(row),
    }));
    const settings = parts.map(({ row, shown, said: changed, trial: link }) =>
      h(
        "div",
        { class: "setting", "data-key": row.key },
        this.#about(row),
        h("div", {}, shown ?? this.#value(row), changed, link),
      ),
    );
    const show = (of) => {
      for (const { row, read, said: changed, trial: link } of parts.filter((part) => part.read)) {
        const value = read(new FormData(of));
        changed.textContent = said(row, value);
        link?.setAttribute("href", tryAddress(row, value));
      }
    };
    const send = (data) =>
      this.#save(
        group,
        name,
        rows,
        parts.filter((part) => part.read),
        data,
      );
    const made = can ? form({ label: name, fields: settings, submit: t("Save"), send }) : settings;
    group.replaceChildren(
      h("h2", {}, name),
      ...(rows[0].key.startsWith("retention_")
        ? [
            h(
              "p",
              { class: "quiet" },
              t("A shorter time takes effect a day after the change. Until then you can undo it."),
            ),
          ]
        : []),
      ...[made].flat(),
    );
    if (can) made.addEventListener("input", () => show(made));
  }

  /** Save the rows that were changed, one after the other. After a refusal a second try sends only what is left. */
  async #save(group, name, rows, parts, data) {
    const changed = parts
      .map(({ row, read }) => ({ row, value: read(data) }))
      .filter(({ row, value }) => !isSame(row.value, value));
    if (!changed.length) {
      toast(t("Nothing has changed."));
      return;
    }
    await sure(
      changed
        .filter(({ row, value }) => isAllowed(row, value))
        .map(({ row, value }) => [row.value, value, (one) => settingValue(row, one)]),
    );
    for (const { row, value } of changed) Object.assign(row, await save(row, value));
    this.#fill(group, name, rows);
    toast(t("Saved."));
    group.querySelector(`[data-key="${changed[0].row.key}"] :is(input, select, textarea)`)?.focus();
  }

  #about(row) {
    return h(
      "div",
      { class: "about" },
      h("h3", {}, row.label, !isSame(row.value, row.default) && [" ", chip(t("changed"), "busy")]),
      h("p", {}, row.meaning),
      h("small", {}, t("Default: {value}", { value: settingValue(row, row.default) })),
      row.updated_by &&
        h("small", {}, t("Last changed by {name}", { name: row.updated_by.display_name }), ", ", time(row.updated_at)),
    );
  }

  #value(row) {
    return h("p", {}, settingValue(row, row.value));
  }
}

customElements.define("settings-page", SettingsPage);
