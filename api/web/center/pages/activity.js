/** The activity of mitras: figures of each mitra, and a list of their chat requests. */

import { api } from "../kernel/api.js";
import { linked } from "../parts/linked.js";
import { instant, ListPage, person, pick } from "../parts/list.js";
import { asked, fairness, outcome } from "../parts/requests.js";
import { h } from "../shared/dom.js";
import { duration, number, percent } from "../shared/format.js";
import { address } from "../shared/router.js";
import { service } from "../shared/service.js";
import { t } from "../shared/words.js";

const SHORT_MS = 60_000;
const below = (text) => [h("br"), h("small", {}, text)];
const now = ({ online_since: since }) =>
  since ? t("online for {time}", { time: duration((service.now() - new Date(since).getTime()) / 1000) }) : t("offline");
/** How long the mitra was online, and below it what they are now. */
const online = (one) => [duration(one.online_seconds), ...below(now(one))];
/** How many of the requests the mitra accepted, and below it the share that counts. */
const accepted = (one) => [
  t("{n} of {all}", { n: number(one.accepted), all: number(one.notified) }),
  ...below(percent(one.acceptance_rate)),
];
// By what the list is ordered, the largest first -> its column. Without a choice: by the number of requests.
const orders = () => [
  ["online_seconds", t("Online")],
  ["acceptance_rate", t("Accepted")],
  ["ignored", t("No answer")],
  ["sessions", t("Sessions")],
  ["share_per_hour_online", t("Sessions an hour")],
  ["median_answer_ms", t("Median answer")],
  ["lost", t("Lost by")],
  ["earned_idr", t("Earned")],
];
/** The begin of a day of the operator, some days ago. */
const midnight = (days) => {
  const at = new Date(service.now());
  at.setHours(0, 0, 0, 0);
  at.setDate(at.getDate() - days);
  return at.toISOString();
};
const ranges = () => [
  [0, t("today")],
  [6, t("last 7 days")],
  [null, t("last 30 days")],
];
const who = ({ mitra }) => linked("mitras", `/mitras/${mitra.id}`, mitra.display_name);

class ActivityPage extends ListPage {
  path = "/internal/mitra-activity/summary";

  get heading() {
    return t("Mitra activity");
  }

  actions() {
    return [h("a", { class: "button", href: address("/activity/log") }, t("All requests"))];
  }

  filters() {
    return [
      instant("from", t("From")),
      instant("to", t("To")),
      pick("sort", t("Order, largest first"), orders(), t("Invited")),
    ];
  }

  /** The list is complete, so it is put in order here. */
  fixed() {
    return { sort: null };
  }

  async load(signal) {
    const found = await super.load(signal);
    const by = this.query.get("sort");
    found.items.sort((one, other) => (other[by] ?? -1) - (one[by] ?? -1));
    return found;
  }

  lead() {
    const link = ([days, words]) => {
      const from = days === null ? null : midnight(days);
      const isShown = this.query.get("from") === from && !this.query.has("to");
      const href = address("/activity", { from, sort: this.query.get("sort") });
      return h("a", { class: "preset", href, "aria-current": isShown ? "true" : null }, words);
    };
    return [
      h("nav", { class: "presets", "aria-label": t("Days") }, ranges().map(link)),
      h("p", { class: "quiet" }, t("Acceptance: accepted of accepted, refused and unanswered.")),
    ];
  }

  columns() {
    const count = (label, name) => ({ label, cell: (one) => number(one[name]), number: true });
    return [
      { label: t("Mitra"), cell: who },
      { label: t("Online"), cell: online },
      { label: t("Accepted"), cell: accepted },
      count(t("Rejected"), "rejected"),
      count(t("No answer"), "ignored"),
      count(t("Another accepted"), "missed"),
      count(t("Sessions"), "sessions"),
      ...fairness().map(([label, cell]) => ({ label, cell, number: true })),
    ];
  }
}

class ActivityLogPage extends ListPage {
  path = "/internal/mitra-activity/log";

  get heading() {
    return t("Requests to mitras");
  }

  actions() {
    return [h("a", { class: "button", href: address("/activity") }, t("By mitra"))];
  }

  /** The mitras to choose from come from the summary, which the same area may read; a short one is soon made. */
  async load(signal) {
    const from = new Date(service.now() - SHORT_MS).toISOString();
    const [found, mitras] = await Promise.all([
      super.load(signal),
      this.mitras ?? api.get("/internal/mitra-activity/summary", { from }, signal),
    ]);
    this.mitras = mitras;
    return found;
  }

  filters() {
    const mitras = (this.mitras?.items ?? []).map((one) => one.mitra);
    return [person("mitra_id", t("Mitra"), mitras), instant("from", t("From")), instant("to", t("To"))];
  }

  columns() {
    return [asked(), { label: t("Mitra"), cell: who }, ...outcome()];
  }
}

customElements.define("activity-page", ActivityPage);
customElements.define("activity-log-page", ActivityLogPage);
