/** The history of a price: who changed what, and when. A change can be set back. */

import { api } from "../kernel/api.js";
import { session } from "../kernel/session.js";
import { difference, plain, sure } from "../parts/changes.js";
import { ListPage } from "../parts/list.js";
import { called, starts, told, words } from "../parts/price.js";
import { chip } from "../parts/status.js";
import { ask } from "../shared/dialog.js";
import { h } from "../shared/dom.js";
import { moment } from "../shared/format.js";
import { address } from "../shared/router.js";
import { time } from "../shared/time.js";
import { toast } from "../shared/toast.js";
import { t } from "../shared/words.js";

const KINDS = {
  created: "created",
  updated: "changed",
  deleted: "removed",
  reactivated: "restored",
  reordered: "moved",
  scheduled: "scheduled",
  unscheduled: "schedule cancelled",
  started: "started as scheduled",
};
const PROMOTION = "/internal/pricing/promotions/first-session";
const QUIET = new Set(["updated_at", "created_at", "id"]);

/** Show what was asked for, and when. */
function planned(schedule) {
  return h("li", {}, starts(schedule), "; ", t("asked for on {moment}", { moment: moment(schedule.asked_at) }));
}

/** Return the differences between two versions, one line each. */
function differences({ before, after, schedule }) {
  const names = Object.keys(after ?? before ?? {}).filter((name) => !QUIET.has(name));
  const changed = names.filter((name) => plain(before?.[name]) !== plain(after?.[name]));
  const lines = changed.map((name) =>
    h("li", {}, `${words(name)}: ${before ? `${told(name, before[name])} → ` : ""}${told(name, after?.[name])}`),
  );
  if (schedule) lines.push(planned(schedule));
  return lines.length ? h("ul", { class: "changes" }, lines) : "–";
}

class HistoryPage extends ListPage {
  /** The fields that an operator can set back. */
  editable = [];

  /** Return the present version, and the route that changes it; null if it can't be changed. */
  async read(_signal) {
    return null;
  }

  async load(signal) {
    const [found, now] = await Promise.all([super.load(signal), this.read(signal)]);
    this.now = now;
    return found;
  }

  actions() {
    return [h("a", { class: "button", href: address("/pricing") }, t("Pricing"))];
  }

  columns() {
    return [
      { label: t("When"), cell: (one) => time(one.changed_at) },
      { label: t("Who"), cell: (one) => one.changed_by?.display_name ?? t("the service") },
      { label: t("What"), cell: (one) => chip(t(KINDS[one.change_kind] ?? one.change_kind)) },
      { label: t("Changes"), cell: (one) => [differences(one), this.#back(one)] },
    ];
  }

  /** A button that sets what a change has changed to its value before, unless it has that value. */
  #back({ before, after }) {
    if (!this.now || !before || !after || !session.may("pricing", "write")) return null;
    const names = this.editable.filter((name) => plain(before[name]) !== plain(after[name]));
    if (names.every((name) => plain(before[name]) === plain(this.now.version[name]))) return null;
    const values = Object.fromEntries(names.map((name) => [name, before[name]]));
    return h("button", { type: "button", onclick: () => this.#setBack(values) }, t("Set back…"));
  }

  async #setBack(values) {
    const { version, path, name } = this.now;
    const changes = Object.entries(values).map(([field, value]) => [
      version[field],
      value,
      (one) => told(field, one),
      words(field),
    ]);
    const line = ([now, value, say, field]) =>
      h("li", {}, field, ": ", difference(now, value, say) || `${say(now)} → ${say(value)}`);
    const done = await ask({
      title: t("Set {name} back", { name }),
      content: [h("ul", { class: "changes" }, changes.map(line))],
      submit: t("Save"),
      send: async () => {
        await sure(changes);
        return api.patch(path, { ...values, updated_at: version.updated_at });
      },
    });
    if (done) toast(t("Saved."));
    await this.refresh({ quietly: true });
  }
}

class TierHistoryPage extends HistoryPage {
  editable = ["price_idr", "tag"];

  get path() {
    return `/internal/pricing/tiers/${this.params.id}/history`;
  }

  get heading() {
    return this.now ? t("History of {name}", { name: this.now.name }) : t("History of a price");
  }

  async read(signal) {
    const { items } = await api.get("/internal/pricing/tiers", {}, signal);
    const tier = items.find(({ id }) => id === this.params.id);
    return tier?.is_active ? { version: tier, path: `/internal/pricing/tiers/${tier.id}`, name: called(tier) } : null;
  }
}

class PromotionHistoryPage extends HistoryPage {
  editable = ["enabled", "price_idr", "gimmick_price_idr", "duration_minutes", "modes"];

  get path() {
    return `${PROMOTION}/history`;
  }

  get heading() {
    return t("History of the discount");
  }

  async read(signal) {
    const version = await api.get(PROMOTION, {}, signal);
    return { version, path: PROMOTION, name: t("First-session discount") };
  }
}

customElements.define("tier-history-page", TierHistoryPage);
customElements.define("promotion-history-page", PromotionHistoryPage);
