/** The activity of mitras: figures of each mitra, and a list of their chat requests. */

import { linked } from "../parts/linked.js";
import { instant, ListPage, search } from "../parts/list.js";
import { asked, outcome } from "../parts/requests.js";
import { h } from "../shared/dom.js";
import { duration, number, percent } from "../shared/format.js";
import { address } from "../shared/router.js";
import { t } from "../shared/words.js";

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
    return [instant("from", t("From")), instant("to", t("To"))];
  }

  render(data) {
    const note = this.query.size
      ? null
      : h("p", { class: "quiet" }, t("The last 30 days. Acceptance: accepted of accepted, refused and unanswered."));
    return [note, super.render(data)];
  }

  columns() {
    const count = (label, name) => ({ label, cell: (one) => number(one[name]), number: true });
    return [
      { label: t("Mitra"), cell: who },
      { label: t("Acceptance"), cell: (one) => percent(one.acceptance_rate), number: true },
      count(t("Invited"), "notified"),
      count(t("Accepted"), "accepted"),
      count(t("Rejected"), "rejected"),
      count(t("No answer"), "ignored"),
      count(t("Another accepted"), "missed"),
      count(t("Sessions"), "sessions"),
      count(t("Sensitive"), "sensitive_sessions"),
      { label: t("Online"), cell: (one) => duration(one.online_seconds), number: true },
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

  filters() {
    return [search("mitra_id", t("Id of a mitra")), instant("from", t("From")), instant("to", t("To"))];
  }

  columns() {
    return [asked(), { label: t("Mitra"), cell: who }, ...outcome()];
  }
}

customElements.define("activity-page", ActivityPage);
customElements.define("activity-log-page", ActivityLogPage);
