/**
 * What if: try other settings before they are live. A form of sliders and numbers starts a simulation; its result is a
 * table, charts, and a button that saves the settings with the forecast. Below it: what came of earlier changes.
 */

import { ApiError, api } from "../kernel/api.js";
import { session } from "../kernel/session.js";
import { difference, settingValue } from "../parts/changes.js";
import "../parts/figure_chart.js";
import { Page } from "../parts/page.js";
import { chip } from "../parts/status.js";
import { table } from "../parts/table.js";
import { confirm } from "../shared/dialog.js";
import { h } from "../shared/dom.js";
import { field, form, integer, select } from "../shared/form.js";
import { number, percent, wait } from "../shared/format.js";
import { preferences } from "../shared/preferences.js";
import { address, go } from "../shared/router.js";
import { time } from "../shared/time.js";
import { toast } from "../shared/toast.js";
import { t } from "../shared/words.js";

export const PATH = "/settings/what-if";
const SIMULATIONS = "/internal/simulations";
const POLL_MS = 2_000;
const DAYS = { usual: 28, least: 14, most: 92 };
const HOURS = 24;
const MONDAY = Date.UTC(2024, 0, 1);
const WEEKDAYS = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
const MOST_COMPARED = 5; // changes whose forecasts the service compares
const GUESSED = 0.05; // a larger share of acceptances without a precedent is said

const oneDecimal = (value) => number(value, { maximumFractionDigits: 1 });
// Figure -> [its words, the format of a value].
const FIGURES = {
  unserved: ["Unserved searches", percent],
  wait_p50: ["Half of the customers wait at most", wait],
  wait_p90: ["Nine of ten customers wait at most", wait],
  phones_rung: ["Mitras asked for a search", oneDecimal],
  load: ["Chats of a mitra who is online", (value) => number(value, { maximumFractionDigits: 2 })],
};

// Reasons without details.
const FAILURES = {
  too_slow: "It took longer than two minutes and was stopped. Try fewer days.",
  died: "Its process ended before the result was there. Try again, or try fewer days.",
};

const dayName = (weekday) =>
  new Intl.DateTimeFormat(preferences.language, { weekday: "short", timeZone: "UTC" }).format(
    MONDAY + weekday * HOURS * 3_600_000,
  );

const sayFigure = (figure, value) => (FIGURES[figure]?.[1] ?? oneDecimal)(value);

/** The columns of a table of forecast figures. */
const forecastColumns = () => [
  { label: t("Figure"), cell: (one) => (FIGURES[one.figure] ? t(FIGURES[one.figure][0]) : one.figure) },
  { label: t("Forecast"), cell: (one) => sayFigure(one.figure, one.forecast), number: true },
  {
    label: t("In nine of ten cases"),
    cell: (one) => `${sayFigure(one.figure, one.low)} – ${sayFigure(one.figure, one.high)}`,
  },
];

/** A number with a slider for the usual values. */
function slider(row, value) {
  const most = Math.min(row.max, 4 * Math.max(row.value, row.default, 5));
  const exact = h("input", { name: row.key, required: true, inputmode: "numeric", value });
  const words = t("{name}, slider", { name: row.label });
  const range = h("input", { type: "range", min: row.min, max: most, value, "aria-label": words });
  range.addEventListener("input", () => {
    exact.value = range.value;
  });
  exact.addEventListener("input", () => {
    range.value = exact.value;
  });
  const now = t("Now {value}; {min} to {max}.", {
    value: settingValue(row, row.value),
    min: number(row.min),
    max: number(row.max),
  });
  return h("div", { class: "try" }, field(row.label, exact, now), range);
}

/** The inputs of mitras who would be online as well. */
function shift() {
  const days = WEEKDAYS.map((day, n) => [day, dayName(n)]);
  return h(
    "div",
    { class: "row shift" },
    field(t("Mitras"), h("input", { name: "shift-mitras", inputmode: "numeric", value: "0", size: 4 })),
    field(t("Day"), select({ name: "shift-day" }, days, "fri")),
    field(t("From"), h("input", { type: "time", name: "shift-from", value: "18:00" })),
    field(t("To"), h("input", { type: "time", name: "shift-to", value: "22:00" })),
  );
}

/** The shifts of a form, such as 2@fri/18:00-22:00. */
function shifts(data) {
  const [mitras, days, begins, ends] = ["mitras", "day", "from", "to"].map((name) => data.getAll(`shift-${name}`));
  return mitras
    .map((count, n) => [count.trim(), `${count.trim()}@${days[n]}/${begins[n]}-${ends[n]}`])
    .filter(([count]) => count && count !== "0")
    .map(([, words]) => words);
}

/** What a simulation tries, in words. */
function tried(simulation, rows) {
  const settings = Object.entries(simulation.settings).map(([key, value]) => {
    const row = rows.get(key);
    return row ? `${row.label}: ${settingValue(row, value)}` : `${key}: ${value}`;
  });
  return [...settings, ...simulation.extra_shifts].join("; ");
}

/** A chart of shares before and after, with a table of the same values. Bars are { label, short, present, forecast }. */
function chart(heading, bars, options = {}) {
  const shown = document.createElement("figure-chart");
  const points = bars.map((bar) => ({ ...bar, value: 100 * bar.forecast, before: 100 * bar.present }));
  const format = (value) => percent(value / 100);
  shown.show(heading, points, { format, compact: format, ...options });
  const columns = [
    { label: heading, cell: (bar) => bar.label },
    { label: t("Now"), cell: (bar) => percent(bar.present), number: true },
    { label: t("Forecast"), cell: (bar) => percent(bar.forecast), number: true },
  ];
  return h(
    "section",
    { class: "card figures" },
    h("h3", {}, heading),
    shown,
    h(
      "details",
      {},
      h("summary", {}, t("The values of {chart} as a table", { chart: heading })),
      table(heading, columns, bars),
    ),
  );
}

/** Say what the history lacks, from the details of a refusal. */
function missing(details) {
  if ("guessed_share" in details)
    return t("{share} of the acceptances would be guessed, and at most {most} may be.", {
      share: percent(details.guessed_share),
      most: percent(details.most_guessed_share),
    });
  return t(
    "There are {days} of {least_days} days, {searches} of {least_searches} searches, and {answers} of {least_answers} answers of mitras.",
    details,
  );
}

/** The hours of the week, those without a search too. */
function week(hours) {
  const found = new Map(hours.map((one) => [(one.weekday - 1) * HOURS + one.hour, one]));
  return [...Array(7 * HOURS).keys()].map((n) => {
    const { present, forecast } = found.get(n) ?? { present: 0, forecast: 0 };
    const day = dayName(Math.floor(n / HOURS));
    return { label: `${day} ${String(n % HOURS).padStart(2, "0")}:00`, short: day, present, forecast };
  });
}

/** The bars of waits, each up to a number of seconds. */
const waits = (bars) =>
  bars.map((bar) => {
    const short = bar.upto === null ? t("more") : wait(bar.upto);
    return { ...bar, label: bar.upto === null ? short : t("up to {value}", { value: short }), short };
  });

/** The bars of loads, one for each number of chats. */
const loads = (bars) =>
  bars.map((bar) => {
    const words = t("{n} chats", { n: number(bar.upto) });
    return { ...bar, label: words, short: words };
  });

class WhatIfPage extends Page {
  get heading() {
    return t("What if");
  }

  connectedCallback() {
    this.everyMs = this.query.has("id") ? POLL_MS : null;
    super.connectedCallback();
  }

  async load(signal) {
    const id = this.query.get("id");
    const [settings, newest, changes, shown] = await Promise.all([
      api.get("/internal/config", {}, signal),
      api.get(SIMULATIONS, {}, signal),
      api.get("/internal/config/changes", {}, signal),
      id && api.get(`${SIMULATIONS}/${id}`, {}, signal),
    ]);
    this.rows = new Map(settings.items.filter((row) => row.triable).map((row) => [row.key, row]));
    return { newest: newest.items, changes: changes.items, shown };
  }

  render({ newest, changes, shown }) {
    const runs = shown?.status === "running";
    if (!runs) clearInterval(this.timer);
    return [
      h(
        "p",
        { class: "quiet" },
        t(
          "A simulation replays the searches of the last weeks with other settings, and forecasts what would change. It changes no setting.",
        ),
      ),
      shown && this.#outcome(shown, changes),
      !runs && session.may("config", "write") && this.#form(shown),
      this.#came(changes),
      newest.length > 0 && this.#earlier(newest),
    ];
  }

  #form(shown) {
    const given = shown?.settings ?? { [this.query.get("key")]: this.query.get("value") };
    const more = h("div", { class: "shifts" }, shift());
    const another = h("button", { type: "button", onclick: () => more.append(shift()) }, t("Another shift"));
    const days = h("input", { name: "days", required: true, inputmode: "numeric", value: DAYS.usual });
    const bounds = t("{min} to {max}", { min: DAYS.least, max: DAYS.most });
    const made = form({
      label: t("Try settings"),
      fields: [
        [...this.rows.values()].map((row) => slider(row, given[row.key] ?? row.value)),
        h("fieldset", {}, h("legend", {}, t("More mitras online, each week")), more, another),
        field(t("Days of history"), days, bounds),
      ],
      submit: t("Simulate"),
      send: (data) => this.#start(data),
    });
    return h("section", { class: "card" }, h("h2", {}, t("Try settings")), made);
  }

  async #start(data) {
    const values = [...this.rows.values()].map((row) => [row, integer(data.get(row.key))]);
    const changed = values.filter(([row, value]) => value !== row.value).map(([row, value]) => [row.key, value]);
    try {
      const body = {
        since_days: integer(data.get("days")),
        settings: Object.fromEntries(changed),
        extra_shifts: shifts(data),
      };
      go(PATH, { id: (await api.post(SIMULATIONS, body)).id });
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (error.code === "NOT_ENOUGH_HISTORY")
        throw new ApiError(error.status, { ...error, message: `${error.message} ${missing(error.details)}` });
      if (error.code !== "SIMULATION_RUNNING") throw error;
      toast(error.message);
      go(PATH, { id: error.details.id });
    }
  }

  /** The simulation that the address names. */
  #outcome(shown, changes) {
    const words = tried(shown, this.rows);
    const head = h("h2", {}, words);
    if (shown.status === "running") {
      const bar = h("progress", { max: 100, value: shown.percent, "aria-label": t("Progress of the simulation") });
      return h("section", { class: "card" }, head, bar, h("p", {}, t("It takes up to two minutes.")));
    }
    if (shown.failure) {
      const reason = shown.details ? missing(shown.details) : t(FAILURES[shown.failure]);
      const why = h("div", { class: "notice bad" }, reason);
      return h("section", { class: "card" }, head, why);
    }
    return this.#result(shown, head, changes);
  }

  #result(shown, head, changes) {
    const { result } = shown;
    const tested = result.back_test.find((one) => one.figure === "unserved");
    const now = { label: t("Now"), cell: (one) => sayFigure(one.figure, one.present), number: true };
    const [figure, ...others] = forecastColumns();
    return h(
      "section",
      { class: "what-if", "aria-label": t("Result") },
      h(
        "div",
        { class: "card" },
        head,
        tested &&
          h(
            "p",
            {},
            t("Would have predicted last week: {forecast} unserved ({happened} happened).", {
              forecast: percent(tested.forecast),
              happened: percent(tested.happened),
            }),
          ),
        h(
          "p",
          { class: "quiet" },
          t("No such test sees mitras who change because of the setting. Compare again a week later."),
        ),
        result.guessed > GUESSED &&
          h(
            "p",
            { class: "notice warn" },
            t("{share} of the acceptances have no precedent in the history.", { share: percent(result.guessed) }),
          ),
        table(t("Figures"), [figure, now, ...others], result.rows),
        this.#saving(shown, changes),
      ),
      h(
        "p",
        { class: "quiet figure-key" },
        t("{searches} searches of {days} days.", { searches: number(result.searches), days: number(result.days) }),
        " ",
        h("span", { class: "before" }),
        t("now"),
        " ",
        h("span", { class: "value" }),
        t("forecast"),
      ),
      chart(t("Unserved searches by hour of the week"), week(result.by_hour), { every: HOURS }),
      chart(t("How long customers wait"), waits(result.waits)),
      chart(t("Load of mitras"), loads(result.loads)),
    );
  }

  /** A button that saves the settings that differ with the forecast; a link to the audit log once all are saved. */
  #saving(shown, changes) {
    const [first] = Object.keys(shown.settings);
    const entries = Object.entries(shown.settings)
      .map(([key, value]) => [this.rows.get(key), value])
      .filter(([row, value]) => row && row.value !== value);
    if (!entries.length && changes.some((one) => one.simulation_id === shown.id))
      return h(
        "p",
        {},
        t("Saved with this forecast."),
        " ",
        h("a", { href: address("/audit-log", { object_id: first }) }, t("Audit log")),
      );
    if (!entries.length || !session.may("config", "write")) return null;
    const words = entries.map(
      ([row, value]) => `${row.label}: ${difference(row.value, value, (one) => settingValue(row, one))}`,
    );
    const save = async () => {
      for (const [row, value] of entries.filter(([row, value]) => row.value !== value)) {
        const body = { value, updated_at: row.updated_at ?? undefined, simulation_id: shown.id };
        Object.assign(row, await api.patch(`/internal/config/${row.key}`, body));
      }
    };
    const act = async () => {
      const isSaved = await confirm(t("Save with the forecast?"), words.join("; "), t("Save"), save, false);
      if (!isSaved && !entries.some(([row, value]) => row.value === value)) return;
      if (isSaved) toast(t("Saved."));
      await this.refresh({ quietly: true });
    };
    return h(
      "div",
      { class: "row end" },
      h("button", { type: "button", class: "primary", onclick: act }, t("Save with the forecast…")),
    );
  }

  /** Compare the newest forecasts that were saved with what happened. */
  #came(changes) {
    const saved = changes.filter((one) => one.forecast).slice(0, MOST_COMPARED);
    if (!saved.length) return null;
    return h(
      "section",
      { class: "card" },
      h("h2", {}, t("What came of it")),
      h(
        "p",
        { class: "quiet" },
        t(
          "What happened in the week after a change, next to the forecast. Outside the interval: mitras or customers may have changed because of the setting.",
        ),
      ),
      saved.map((one) => this.#compared(one)),
    );
  }

  #compared({ key, label, before, after, changed_at, simulation_id, forecast }) {
    const row = this.rows.get(key) ?? { unit: "" };
    const words = `${label}: ${before === null ? "–" : settingValue(row, before)} → ${settingValue(row, after)}`;
    const happened = ({ happened: value, low, high, figure }) => {
      if (value === null) return t("not yet known");
      const missed = value < low || value > high;
      return [sayFigure(figure, value), missed && h("div", {}, chip(t("outside the interval"), "warn"))];
    };
    const columns = [...forecastColumns(), { label: t("Happened"), cell: happened }];
    const known = forecast.filter((one) => one.figure !== "load");
    return h(
      "article",
      { "aria-label": words },
      h("h3", {}, h("a", { href: address(PATH, { id: simulation_id }) }, words)),
      h("p", { class: "quiet" }, time(changed_at)),
      table(words, columns, known),
    );
  }

  #earlier(newest) {
    const states = { running: t("running"), done: t("done"), failed: t("without a result") };
    const columns = [
      { label: t("When"), cell: (one) => time(one.asked_at) },
      { label: t("Operator"), cell: (one) => one.asked_by.display_name },
      { label: t("Tried"), cell: (one) => h("a", { href: address(PATH, { id: one.id }) }, tried(one, this.rows)) },
      { label: t("State"), cell: (one) => states[one.status] },
    ];
    return h("section", { class: "card" }, h("h2", {}, t("Simulations")), table(t("Simulations"), columns, newest));
  }
}

customElements.define("what-if-page", WhatIfPage);
