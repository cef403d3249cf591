/** The history of a price: who changed what, and when. */

import { ListPage } from "../parts/list.js";
import { told, words } from "../parts/price.js";
import { chip } from "../parts/status.js";
import { h } from "../shared/dom.js";
import { moment, rupiah } from "../shared/format.js";
import { address } from "../shared/router.js";
import { time } from "../shared/time.js";
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
const QUIET = new Set(["updated_at", "created_at", "id"]);

/** Show what was asked for, and when. */
function planned(schedule) {
  const price = t("from {moment}: {price}", { moment: moment(schedule.starts_at), price: rupiah(schedule.price_idr) });
  return h("li", {}, price, "; ", t("asked for on {moment}", { moment: moment(schedule.asked_at) }));
}

/** Return the differences between two versions, one line each. */
function differences({ before, after, schedule }) {
  const names = Object.keys(after ?? before ?? {}).filter((name) => !QUIET.has(name));
  const changed = names.filter((name) => JSON.stringify(before?.[name]) !== JSON.stringify(after?.[name]));
  const lines = changed.map((name) =>
    h("li", {}, `${words(name)}: ${before ? `${told(name, before[name])} → ` : ""}${told(name, after?.[name])}`),
  );
  if (schedule) lines.push(planned(schedule));
  return lines.length ? h("ul", { class: "changes" }, lines) : "–";
}

class HistoryPage extends ListPage {
  actions() {
    return [h("a", { class: "button", href: address("/pricing") }, t("Pricing"))];
  }

  columns() {
    return [
      { label: t("When"), cell: (one) => time(one.changed_at) },
      { label: t("Who"), cell: (one) => one.changed_by?.display_name ?? t("the service") },
      { label: t("What"), cell: (one) => chip(t(KINDS[one.change_kind] ?? one.change_kind)) },
      { label: t("Changes"), cell: differences },
    ];
  }
}

class TierHistoryPage extends HistoryPage {
  get path() {
    return `/internal/pricing/tiers/${this.params.id}/history`;
  }

  get heading() {
    return t("History of a price");
  }
}

class PromotionHistoryPage extends HistoryPage {
  get path() {
    return "/internal/pricing/promotions/first-session/history";
  }

  get heading() {
    return t("History of the discount");
  }
}

customElements.define("tier-history-page", TierHistoryPage);
customElements.define("promotion-history-page", PromotionHistoryPage);
