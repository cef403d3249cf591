/** The ledger audit: whether all paid money is earned, in a failed pairing, or in flight. */

import { api } from "../kernel/api.js";
import { Page } from "../parts/page.js";
import { replicaNote } from "../parts/replica.js";
import { table } from "../parts/table.js";
import { h } from "../shared/dom.js";
import { number } from "../shared/format.js";
import { time } from "../shared/time.js";
import { t } from "../shared/words.js";

const PATIENCE_MS = 20 * 60_000; // the audit reads every row, and a second caller waits for the next audit

class LedgerPage extends Page {
  get heading() {
    return t("Ledger audit");
  }

  actions() {
    return [h("button", { type: "button", onclick: () => this.refresh() }, t("Check again"))];
  }

  load(signal) {
    return api.get("/internal/ledger/audit", {}, signal, PATIENCE_MS);
  }

  render(data) {
    const { sessions, payments, violations, accepted } = data;
    const sum = t("{sessions} sessions, {payments} payments, {violations} violations", {
      sessions: number(sessions),
      payments: number(payments),
      violations: number(violations.length),
    });
    const columns = [
      { label: t("Rule"), cell: (one) => one.rule },
      { label: t("Id"), cell: (one) => h("span", { class: "id" }, one.id) },
      { label: t("Finding"), cell: (one) => one.detail },
    ];
    const acceptance = [
      { label: t("Reason"), cell: (one) => one.reason },
      { label: t("Operator"), cell: (one) => one.operator },
      { label: t("Time"), cell: (one) => time(one.accepted_at) },
    ];
    return [
      h("p", { class: violations.length ? "notice bad" : "notice good", role: "status" }, sum),
      replicaNote(data),
      violations.length > 0 && table(t("Violations"), columns, violations),
      accepted.length > 0 && h("h2", {}, t("Accepted violations")),
      accepted.length > 0 && table(t("Accepted violations"), [...columns, ...acceptance], accepted),
    ];
  }
}

customElements.define("ledger-page", LedgerPage);
