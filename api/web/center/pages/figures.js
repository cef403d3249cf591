/**
 * The figures of the business: one figure as charts by day, mode, tier, channel and cause, next to those of a week
 * before, and all figures in tables below them. Promises and unserved searches are sections of it.
 */

import { api } from "../kernel/api.js";
import { session } from "../kernel/session.js";
import { download } from "../parts/download.js";
import "../parts/figure_chart.js";
import { ListPage, pick, sections } from "../parts/list.js";
import { cause } from "../parts/status.js";
import { table } from "../parts/table.js";
import { h } from "../shared/dom.js";
import { field } from "../shared/form.js";
import { number, rupiah, utcDay } from "../shared/format.js";
import { preferences } from "../shared/preferences.js";
import { t } from "../shared/words.js";

const PATH = "/internal/figures";
const DAY_MS = 86_400_000;
// The figures, and whether they are money.
const FIGURES = [
  ["paid", "Paid", true],
  ["earned", "Earned", true],
  ["refunded", "Refunded", true],
  ["failed", "Failed", true],
  ["open", "Open", true],
  ["chats", "Chats", false],
  ["unserved", "Unserved searches", false],
];
const GROUPS = [
  ["mode", "By mode"],
  ["tier", "By tier"],
  ["channel", "By channel"],
  ["cause", "By cause"],
];

/** A day as text, a week earlier. */
const weekBefore = (day) => dayAfter(day, -7);

/** A day as text, some days later. */
const dayAfter = (day, days) => new Date(Date.parse(day) + days * DAY_MS).toISOString().slice(0, 10);

/** A change of a setting in words. */
const changeWords = ({ label, before, after }) =>
  `${label}: ${before === null ? "–" : number(before)} → ${number(after)}`;

const compact = (value) => number(value, { notation: "compact", maximumFractionDigits: 1 });

const shortDay = (day) =>
  new Intl.DateTimeFormat(preferences.language === "id" ? "id-ID" : "en-GB", {
    day: "numeric",
    month: "short",
    timeZone: "UTC",
  }).format(new Date(day));

/** The words for a key of a figure. */
function nameOf(by, key) {
  if (key === null) return by === "cause" ? t("no failure") : t("none");
  if (by === "cause") return cause.say(key);
  if (by === "day") return utcDay(key);
  if (by === "channel") return key;
  if (by === "mode") return t(key);
  const [mode, minutes] = key.split(" ");
  return `${t(mode)}, ${t("{n} min", { n: minutes })}`;
}

const dayInput = (name, label) => ({
  name,
  make: (value) => field(label, h("input", { type: "date", name, value: value ?? "" })),
});

class FiguresPage extends ListPage {
  path = PATH;

  get heading() {
    return t("Figures");
  }

  filters() {
    const options = FIGURES.filter(([name]) => name !== "paid").map(([name, words]) => [name, t(words)]);
    return [dayInput("from", t("From")), dayInput("to", t("To")), pick("figure", t("Figure"), options, t("Paid"))];
  }

  /** The filters that the service knows. */
  #days() {
    return { from: this.query.get("from"), to: this.query.get("to") };
  }

  /** Read the days first: the answer says which they are, and in which zone. */
  async load(signal) {
    if (!session.may("payments")) return null;
    const days = await api.get(PATH, this.#days(), signal);
    const now = { from: days.first_day, to: days.last_day };
    const then = { from: weekBefore(now.from), to: weekBefore(now.to) };
    const read = async (by, range) => (await api.get(PATH, { ...range, by }, signal)).items;
    const groups = GROUPS.map(async ([by]) => [by, await Promise.all([read(by, now), read(by, then)])]);
    const [before, changes, ...pairs] = await Promise.all([read("day", then), this.#changes(days, signal), ...groups]);
    return { ...days, before, changes, groups: Object.fromEntries(pairs) };
  }

  /** The changes of settings in these days that a simulation can try, the oldest first, each with its day. */
  async #changes({ first_day, last_day, time_zone }, signal) {
    if (!session.may("config")) return [];
    const range = { from: `${dayAfter(first_day, -1)}T00:00:00Z`, to: `${dayAfter(last_day, 2)}T00:00:00Z` };
    const { items } = await api.get("/internal/config/changes", range, signal);
    const day = new Intl.DateTimeFormat("sv", { timeZone: time_zone }); // writes days such as 2026-11-28
    return items
      .reverse()
      .map((one) => ({ ...one, day: day.format(new Date(one.changed_at)) }))
      .filter((one) => one.day >= first_day && one.day <= last_day);
  }

  render(data) {
    if (data === null) return [sections(), h("p", { class: "notice" }, t("Your role doesn't allow you to see money."))];
    return [sections(), super.render(data)];
  }

  foot() {
    return null; // each chart has its button
  }

  zoneNote() {
    return null; // days are those of the business, as the line above the charts says
  }

  list(data) {
    const chosen = FIGURES.find(([name]) => name === this.query.get("figure")) ?? FIGURES[0];
    const zone = t("Days from {from} to {to}, in the zone {zone}.", {
      from: utcDay(data.first_day),
      to: utcDay(data.last_day),
      zone: data.time_zone,
    });
    return [
      h(
        "p",
        { class: "quiet figure-key" },
        zone,
        " ",
        h("span", { class: "value" }),
        t("these days"),
        " ",
        h("span", { class: "before" }),
        t("a week before"),
      ),
      this.#section(chosen, "day", t("By day"), data.items, (_, n) => data.before[n], data.changes),
      GROUPS.map(([by, words]) => {
        const [now, then] = data.groups[by];
        return this.#section(chosen, by, t(words), now, (row) => then.find((one) => one.key === row.key));
      }),
    ];
  }

  /**
   * A chart of the chosen figure, and a table of all. `earlier` returns the row of a week before. `changes` are marks of
   * changed settings.
   */
  #section([name, words, isMoney], by, heading, rows, earlier, changes = []) {
    const marks = (day) => changes.filter((one) => one.day === day).map(changeWords);
    const format = isMoney ? rupiah : number;
    const bars = rows.map((row, n) => ({
      label: nameOf(by, row.key),
      short: by === "day" ? shortDay(row.key) : null,
      value: row[name],
      before: earlier(row, n)?.[name] ?? 0,
      mark: marks(row.key).join("; "),
    }));
    const sum = (key) => format(bars.reduce((total, bar) => total + bar[key], 0));
    const title = `${t(words)}, ${heading}`;
    const chart = document.createElement("figure-chart");
    chart.show(`${title}: ${sum("value")}`, bars, { format, compact, across: by !== "day" });
    const before = new Map(rows.map((row, n) => [row, bars[n].before]));
    const columns = [
      { label: heading, cell: (row) => nameOf(by, row.key) },
      ...FIGURES.map(([key, label, money]) => ({
        label: t(label),
        cell: (row) => (money ? rupiah : number)(row[key]),
        number: true,
      })),
      {
        label: t("{figure} a week before", { figure: t(words) }),
        cell: (row) => format(before.get(row)),
        number: true,
      },
    ];
    return h(
      "section",
      { class: "card figures" },
      h("div", { class: "row spread" }, h("h2", {}, heading), h("strong", {}, `${t(words)}: ${sum("value")}`)),
      rows.length ? chart : h("p", { class: "quiet" }, t("Nothing in this time.")),
      changes.length > 0 && [
        h("p", { class: "quiet" }, t("Dashed lines are changes of settings:")),
        h(
          "ul",
          { class: "changes" },
          changes.map((one) => h("li", {}, `${utcDay(one.day)}, ${changeWords(one)}`)),
        ),
      ],
      rows.length > 0 &&
        h(
          "details",
          {},
          h("summary", {}, t("All figures as a table")),
          h(
            "div",
            { class: "scroll", tabindex: "0", role: "region", "aria-label": title },
            table(title, columns, rows),
          ),
        ),
      h("div", { class: "row end" }, download(PATH, { ...this.#days(), by }, heading)),
    );
  }

  failed(error) {
    return [sections(), ...super.failed(error)];
  }
}

customElements.define("figures-page", FiguresPage);
