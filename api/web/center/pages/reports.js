/** Reports of customers and mitras about each other: the queue, and one of them with what operators do about it. */

import { api } from "../kernel/api.js";
import { session } from "../kernel/session.js";
import { linked, nameOf, written } from "../parts/linked.js";
import { ListPage, pick } from "../parts/list.js";
import { makingGood } from "../parts/making_good.js";
import { Page } from "../parts/page.js";
import { chat, chip, reason, resolution } from "../parts/status.js";
import { facts } from "../parts/table.js";
import { whoWrote } from "../parts/who_wrote.js";
import { ask } from "../shared/dialog.js";
import { h } from "../shared/dom.js";
import { field, select } from "../shared/form.js";
import { address } from "../shared/router.js";
import { age, time } from "../shared/time.js";
import { toast } from "../shared/toast.js";
import { t } from "../shared/words.js";

const PATH = "/internal/reports";
const EVERY_MS = 10_000; // in which the queue sees that something has changed
const SIDES = { customer: ["customers", "Customer"], mitra: ["mitras", "Mitra"] };

/** A party of a report, by the link to their page. */
const party = (report, side) => {
  const [area] = SIDES[side];
  return linked(area, `/${area}/${report[side].id}`, nameOf(report[side]));
};
const reported = ({ reporter }) => (reporter === "customer" ? "mitra" : "customer");
const sideOf = (report, side) => h("span", {}, party(report, side), " (", t(SIDES[side][1]), ")");
const state = (report) => (report.resolution ? resolution.chip(report.resolution) : chip(t("open"), "bad"));

class ReportsPage extends ListPage {
  path = PATH;
  everyMs = EVERY_MS;

  get heading() {
    return t("Reports");
  }

  filters() {
    return [
      pick(
        "status",
        t("State"),
        [
          ["resolved", t("resolved")],
          ["all", t("all")],
        ],
        t("open"),
      ),
      pick("reason", t("Reason"), reason.options()),
    ];
  }

  /** By default the queue has the open reports; that of a person all. */
  fixed() {
    const { status, user_id: person } = Object.fromEntries(this.query);
    return { status: status === "all" ? null : (status ?? (person ? null : "open")) };
  }

  /** Each reading leaves a row in the audit log, so the queue is read again on a change only. */
  async load(signal) {
    const { reports: seen } = await api.get("/internal/worklist", {}, signal);
    if (this.isPolling && this.seen === seen) return this.found;
    this.found = await super.load(signal);
    this.seen = seen;
    return this.found;
  }

  empty() {
    return t("No report is open.");
  }

  columns() {
    return [
      { label: t("Reported"), cell: (one) => h("a", { href: address(`/reports/${one.id}`) }, time(one.created_at)) },
      { label: t("By"), cell: (one) => sideOf(one, one.reporter) },
      { label: t("About"), cell: (one) => sideOf(one, reported(one)) },
      { label: t("Reason"), cell: (one) => reason.chip(one.reason) },
      { label: t("Message"), cell: (one) => one.message && written(one.message) },
      { label: t("State"), cell: state },
    ];
  }
}

class ReportPage extends Page {
  get heading() {
    return t("Report");
  }

  actions() {
    return [h("a", { class: "button", href: address("/reports") }, t("All reports"))];
  }

  async load(signal) {
    const report = await api.get(`${PATH}/${this.params.id}`, {}, signal);
    const talk = session.may("sessions")
      ? await api.get(`/internal/sessions/${report.session_id}`, { texts: false }, signal)
      : null;
    const paid = talk?.payment_request_id;
    const payment =
      paid && session.may("payments") ? await api.get(`/internal/payment-requests/${paid}`, {}, signal) : null;
    return { report, talk, payment };
  }

  render({ report, talk, payment }) {
    return h(
      "div",
      { class: "work" },
      h("div", { class: "page-body" }, this.#facts(report), this.#act(report)),
      h(
        "div",
        { class: "page-body" },
        talk && this.#talk(talk),
        payment && makingGood(payment, () => this.refresh({ quietly: true })),
      ),
    );
  }

  #facts(report) {
    return h(
      "section",
      { class: "card" },
      h(
        "h2",
        {},
        t("{one} about {other}", { one: nameOf(report[report.reporter]), other: nameOf(report[reported(report)]) }),
      ),
      facts([
        [t("Reported"), h("span", {}, time(report.created_at), " (", age(report.created_at), ")")],
        [t("By"), sideOf(report, report.reporter)],
        [t("About"), sideOf(report, reported(report))],
        [t("Reason"), reason.chip(report.reason)],
        [t("Message"), report.message && h("span", { class: "written" }, written(report.message))],
        [t("Session"), linked("sessions", `/sessions/${report.session_id}`, t("the chat"))],
        [t("State"), state(report)],
        report.note && [t("Note"), written(report.note)],
        report.resolved_at && [
          t("By"),
          h("span", {}, report.resolved_by?.display_name ?? "–", ", ", time(report.resolved_at)),
        ],
      ]),
    );
  }

  #act(report) {
    if (report.resolution) return null;
    if (!session.may("reports", "write"))
      return h("p", { class: "notice" }, t("Your role can view this but not act on it."));
    const [area] = SIDES[reported(report)];
    return h(
      "section",
      { class: "card" },
      h("h2", {}, t("What did you do about it?")),
      h(
        "p",
        { class: "quiet" },
        t("Block or deactivate the person on their page, and give money back here or on the session. Then record it."),
      ),
      h(
        "div",
        { class: "row" },
        h("button", { class: "primary", type: "button", onclick: () => this.#resolve(report) }, t("Resolve…")),
        session.may(area, "write") &&
          h(
            "a",
            { class: "button", href: address(`/${area}/${report[reported(report)].id}`) },
            area === "customers"
              ? t("Block {name}", { name: nameOf(report.customer) })
              : t("Deactivate {name}", { name: nameOf(report.mitra) }),
          ),
      ),
    );
  }

  #talk(talk) {
    return h(
      "section",
      { class: "card" },
      h("h2", {}, t("The chat")),
      facts([
        [t("State"), chat.chip(talk.status)],
        ...whoWrote(talk),
        [t("Minutes"), talk.duration_minutes + talk.extended_minutes],
        [t("Chat started"), time(talk.paired_at)],
        [t("Ended"), time(talk.ended_at)],
      ]),
    );
  }

  /** Record what was done. A colleague may have been faster; then the page shows what they did. */
  async #resolve(report) {
    const done = await ask({
      title: t("Resolve this report"),
      content: [
        h("p", {}, t("This is recorded once, with your name. It blocks no one and moves no money.")),
        field(
          t("What did you do about it?"),
          select({ name: "resolution", required: true }, [["", "–"], ...resolution.options()]),
        ),
        field(t("Note"), h("textarea", { name: "note", rows: "3", maxlength: "500" }), t("for other operators")),
      ],
      submit: t("Resolve"),
      send: (data) =>
        api.patch(`${PATH}/${report.id}`, {
          resolution: data.get("resolution"),
          note: data.get("note").trim() || null,
        }),
    });
    await this.refresh({ quietly: true });
    if (done) toast(t("Recorded: {what}.", { what: resolution.say(done.resolution) }));
  }
}

customElements.define("reports-page", ReportsPage);
customElements.define("report-page", ReportPage);
