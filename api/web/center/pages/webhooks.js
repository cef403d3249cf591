/** Calls of the payment gateway: their content, their results, and their replay. */

import { api } from "../kernel/api.js";
import { session } from "../kernel/session.js";
import { linked, written } from "../parts/linked.js";
import { instant, ListPage, pick, search } from "../parts/list.js";
import { Page } from "../parts/page.js";
import { chip, result } from "../parts/status.js";
import { facts } from "../parts/table.js";
import { confirm } from "../shared/dialog.js";
import { h } from "../shared/dom.js";
import { rupiah } from "../shared/format.js";
import { address, go } from "../shared/router.js";
import { time } from "../shared/time.js";
import { toast } from "../shared/toast.js";
import { t } from "../shared/words.js";

const PATH = "/internal/webhook-logs";
const FLOOD = "flood"; // a row that counts many calls from one address in one minute, without their bodies
const became = (one) => (one.processing_result ? result.chip(one.processing_result) : chip(t("not answered"), "warn"));
const counted = (one) => (one.calls > 1 ? [became(one), ` × ${one.calls}`] : became(one));

const source = (one) => (one.source === "poll" ? t("polled") : t("call"));

/** The amount as the gateway wrote it; in Rupiah if it is a whole number. */
const amount = (one) => (/^\d+$/.test(one.amount ?? "") ? rupiah(Number(one.amount)) : one.amount);

/** A link to the payment of a call, if the call has the id of one of ours. */
function paid({ external_id: id }) {
  const ours = /^[0-9a-f-]{36}$/i.test(id ?? "");
  return ours ? linked("payments", `/payments/${id.toLowerCase()}`, id, "id") : id && h("span", { class: "id" }, id);
}

class WebhooksPage extends ListPage {
  path = PATH;

  get heading() {
    return t("Webhook log");
  }

  filters() {
    return [
      search("q", t("Id"), t("of the payment, invoice or call")),
      pick("processing_result", t("Result"), result.options()),
      instant("from", t("From")),
      instant("to", t("To")),
    ];
  }

  /** The list leaves the bodies out, so reading it writes no audit row. */
  fixed() {
    return { bodies: false };
  }

  columns() {
    return [
      { label: t("Received"), cell: (one) => h("a", { href: address(`/webhooks/${one.id}`) }, time(one.received_at)) },
      { label: t("Status"), cell: (one) => one.status },
      { label: t("Amount"), cell: amount, number: true },
      { label: t("Payment"), cell: paid },
      { label: t("Source"), cell: source },
      { label: t("Result"), cell: counted },
      { label: t("Answer"), cell: (one) => one.http_status, number: true },
    ];
  }
}

/** Return a body as indented JSON, or unchanged if it is not JSON. */
function readable(body) {
  try {
    const parsed = JSON.parse(body);
    const bare = (text) => text.replaceAll(/\s/g, "");
    // Very long numbers and duplicate names would be changed by parsing, so such a body is shown unchanged.
    return bare(JSON.stringify(parsed)) === bare(body) ? JSON.stringify(parsed, null, 2) : null;
  } catch {
    return null;
  }
}

class WebhookPage extends Page {
  get heading() {
    return t("Webhook call");
  }

  actions() {
    return [h("a", { class: "button", href: address("/webhooks") }, t("All calls"))];
  }

  load(signal) {
    return api.get(`${PATH}/${this.params.id}`, {}, signal);
  }

  render(one) {
    const body = one.processing_result !== FLOOD && this.#body(one);
    return h("div", { class: "work" }, this.#facts(one), body);
  }

  #body(one) {
    const indented = readable(one.raw_body);
    return h(
      "section",
      { class: "card" },
      indented && [h("h2", {}, t("Body")), h("pre", { tabindex: "0", "aria-label": t("Body") }, indented)],
      h(
        "details",
        { open: indented === null },
        h("summary", {}, t("As received")),
        h("pre", { tabindex: "0", "aria-label": t("As received") }, one.raw_body),
      ),
    );
  }

  #facts(one) {
    return h(
      "section",
      { class: "card" },
      facts([
        [t("Received"), time(one.received_at)],
        [t("Source"), source(one)],
        [t("From"), one.source_ip],
        [t("Status"), one.status],
        [t("Amount"), amount(one)],
        [t("Payment"), paid(one)],
        [t("Invoice"), one.gateway_invoice_id],
        [t("App"), one.app_tag],
        [t("Result"), became(one)],
        [t("Answer"), one.http_status],
        one.processing_error && [t("Error"), written(one.processing_error)],
        one.replay_of && [
          t("Replay of"),
          h("a", { class: "id", href: address(`/webhooks/${one.replay_of}`) }, one.replay_of),
        ],
        [t("Id"), h("span", { class: "id" }, one.id)],
        ...this.#count(one),
      ]),
      session.may("webhooks", "write") &&
        one.processing_result !== FLOOD &&
        h("div", { class: "row" }, h("button", { type: "button", onclick: () => this.#replay(one) }, t("Replay…"))),
    );
  }

  #count(one) {
    if (one.processing_result !== FLOOD) return [];
    return [
      [t("Calls in this minute"), one.calls],
      [t("Total bytes"), one.bytes],
      [t("SHA-256 of the newest body"), h("span", { class: "id" }, one.body_sha256)],
    ];
  }

  async #replay(one) {
    const said = t("The stored body runs through the same handler again. Work that is already done is not repeated.");
    const made = await confirm(
      t("Replay this call?"),
      said,
      t("Replay"),
      () => api.post(`${PATH}/${one.id}/replay`),
      false,
    );
    if (!made) return;
    toast(t("Replayed: {result}.", { result: result.say(made.processing_result) }));
    go(`/webhooks/${made.id}`);
  }
}

customElements.define("webhooks-page", WebhooksPage);
customElements.define("webhook-page", WebhookPage);
