/** A page that lists things: filters that live in the address, a table, and the way to older ones. */

import { api } from "../kernel/api.js";
import { h } from "../kernel/dom.js";
import { address, go, here } from "../kernel/router.js";
import { t } from "../kernel/words.js";
import { field, select } from "./form.js";
import { Page } from "./page.js";
import { table } from "./table.js";

/** What is written in a filter: [name, label, hint]. */
export const search = (name, label, hint) => ({
  name,
  make: (value) => field(label, h("input", { type: "search", name, value: value ?? "", autocomplete: "off" }), hint),
});

/** One of a few; without a choice it is what `any` says. */
export const pick = (name, label, options, any = t("any")) => ({
  name,
  make: (value) => field(label, select({ name }, [["", any], ...options], value ?? "")),
});

const local = (iso) => {
  const at = new Date(iso);
  return Number.isNaN(at.getTime()) ? "" : new Date(at - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
};

/** A moment, written in the operator's zone and kept in the address with its zone. */
export const instant = (name, label) => ({
  name,
  make: (value) => field(label, h("input", { type: "datetime-local", name, value: value ? local(value) : "" })),
  read: (written) => (written ? new Date(written).toISOString() : ""),
});

export class ListPage extends Page {
  /** The route that is asked. */
  get path() {
    return "";
  }

  filters() {
    return [];
  }

  /** What is asked besides the filters. */
  fixed() {
    return {};
  }

  columns() {
    return [];
  }

  empty() {
    return t("Nothing here yet.");
  }

  load(signal) {
    return api.get(this.path, { ...Object.fromEntries(this.query), ...this.fixed() }, signal);
  }

  render(data) {
    const shown = data.items.length
      ? table(this.heading, this.columns(), data.items)
      : h("p", { class: "card empty" }, this.query.size ? t("Nothing matches these filters.") : this.empty());
    return [this.#filterForm(), shown, this.#pager(data)];
  }

  /** The filters stay: what was written in one of them may be what is wrong. */
  failed(error) {
    return [this.#filterForm(), ...super.failed(error)].filter(Boolean);
  }

  #filterForm() {
    const filters = this.filters();
    if (!filters.length) return null;
    const apply = (event) => {
      event.preventDefault();
      const data = new FormData(event.currentTarget);
      const values = filters.map(({ name, read }) => [name, read ? read(data.get(name)) : data.get(name).trim()]);
      go(here().path, Object.fromEntries(values));
    };
    return h(
      "form",
      { class: "filters card", role: "search", onsubmit: apply },
      filters.map(({ name, make }) => make(this.query.get(name))),
      h(
        "div",
        { class: "row" },
        h("button", { type: "submit" }, t("Search")),
        this.query.size > 0 && h("a", { class: "button", href: address(here().path) }, t("Clear")),
      ),
    );
  }

  #pager(data) {
    const query = Object.fromEntries(this.query);
    const newer =
      query.cursor &&
      h("a", { class: "button", href: address(here().path, { ...query, cursor: null }) }, t("First page"));
    const older =
      data.next_cursor &&
      h("a", { class: "button", href: address(here().path, { ...query, cursor: data.next_cursor }) }, t("Next page"));
    return (newer || older) && h("nav", { class: "row end", "aria-label": t("Pages") }, newer, older);
  }
}
