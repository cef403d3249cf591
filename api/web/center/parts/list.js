/** A page with a list: filters that are kept in the address, a table, and a button for older rows. */

import { api } from "../kernel/api.js";
import { session } from "../kernel/session.js";
import { h } from "../shared/dom.js";
import { field, select } from "../shared/form.js";
import { address, go, here } from "../shared/router.js";
import { t } from "../shared/words.js";
import { download } from "./download.js";
import { Page } from "./page.js";
import { replicaNote } from "./replica.js";
import { table } from "./table.js";

/** A text filter: [name, label, hint]. */
export const search = (name, label, hint) => ({
  name,
  make: (value) => field(label, h("input", { type: "search", name, value: value ?? "", autocomplete: "off" }), hint),
});

/** A filter with a few options. `any` is the label of no choice. */
export const pick = (name, label, options, any = t("any")) => ({
  name,
  make: (value) => field(label, select({ name }, [["", any], ...options], value ?? "")),
});

/** The value of a `datetime-local` input for a time, in the operator's time zone. */
export const localInput = (iso) => {
  const at = new Date(iso);
  return Number.isNaN(at.getTime()) ? "" : new Date(at - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
};

/** Words about the zone of the times that the operator reads and writes. */
export const zoneWords = () =>
  t("Times are in the zone {zone}.", { zone: Intl.DateTimeFormat().resolvedOptions().timeZone });

/** A time filter, shown in the operator's time zone; the address has the time with its zone. */
export const instant = (name, label) => ({
  name,
  make: (value) => field(label, h("input", { type: "datetime-local", name, value: value ? localInput(value) : "" })),
  read: (written) => (written ? new Date(written).toISOString() : ""),
});

/** A filter of people by name, of [{ id, display_name }]. One who is filtered for is offered also if they are missing. */
export const person = (name, label, people) => ({
  name,
  make: (value) => {
    const options = people
      .map(({ id, display_name }) => [id, display_name])
      .sort(([, one], [, other]) => one.localeCompare(other));
    if (value && !people.some(({ id }) => id === value)) options.push([value, value]);
    return field(label, select({ name }, [["", t("any")], ...options], value ?? ""));
  },
});

/** Links to the parts of the figures that the operator may see. */
export function sections() {
  const all = [
    ["/figures", "Figures", "payments"],
    ["/figures/promises", "Promises", "activity"],
    ["/figures/unserved", "Unserved searches", "activity"],
  ];
  const link = ([path, words]) =>
    h("a", { class: "button", href: address(path), "aria-current": path.endsWith(here().path) && "page" }, t(words));
  const shown = all.filter(([, , area]) => session.may(area)).map(link);
  return h("nav", { class: "row", "aria-label": t("Figures") }, shown);
}

export class ListPage extends Page {
  /** The route of the list. */
  get path() {
    return "";
  }

  filters() {
    return [];
  }

  /** Query parameters in addition to the filters. */
  fixed() {
    return {};
  }

  columns() {
    return [];
  }

  /** Return the content between the filters and the items. */
  lead(_data) {
    return null;
  }

  /** Return the content for the items, at least one. */
  list(data) {
    return table(this.heading, this.columns(), data.items);
  }

  empty() {
    return t("Nothing here yet.");
  }

  load(signal) {
    return api.get(this.path, { ...Object.fromEntries(this.query), ...this.fixed() }, signal);
  }

  render(data) {
    const shown = data.items.length
      ? this.list(data)
      : h("p", { class: "card empty" }, this.query.size ? t("Nothing matches these filters.") : this.empty());
    return [this.#filterForm(), replicaNote(data), this.lead(data), shown, this.foot(data), this.zoneNote()];
  }

  /** Return the words about the zone of the times. */
  zoneNote() {
    return h("small", {}, zoneWords());
  }

  /** Keep the filters after an error, because the value of one may be its cause. */
  failed(error) {
    return [this.#filterForm(), ...super.failed(error)].filter(Boolean);
  }

  /** A list that is read again and again stays while the operator writes a filter, or has a dialog open. */
  async refresh(options = {}) {
    this.isPolling = Boolean(options.polling);
    if (options.polling && (this.isTouched || document.querySelector("dialog[open]"))) return;
    await super.refresh(options);
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
    const touch = () => {
      this.isTouched = true;
    };
    return h(
      "form",
      { class: "filters card", role: "search", onsubmit: apply, oninput: touch },
      filters.map(({ name, make }) => make(this.query.get(name))),
      h(
        "div",
        { class: "row" },
        h("button", { type: "submit" }, t("Search")),
        this.query.size > 0 && h("a", { class: "button", href: address(here().path) }, t("Clear")),
      ),
    );
  }

  /** Return what stands below the list: other pages of it, and all of it as a file. */
  foot(data) {
    const query = { ...Object.fromEntries(this.query), ...this.fixed(), cursor: null, limit: null };
    const file = data.items.length > 0 && download(this.path, query);
    const pager = this.#pager(data);
    return (file || pager) && h("div", { class: "row spread" }, file, pager);
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
