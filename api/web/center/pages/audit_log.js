/** The audit log: what operators changed, and which personal data they read. */

import { linked } from "../parts/linked.js";
import { instant, ListPage, pick, search } from "../parts/list.js";
import { h } from "../shared/dom.js";
import { address } from "../shared/router.js";
import { time } from "../shared/time.js";
import { t } from "../shared/words.js";

const PATH = "/audit-log";
const ACTIONS = {
  "customer.read": "read a phone or e-mail",
  "customer.exported": "exported a customer's data",
  "customer.erased": "erased a customer",
  "mitra.erased": "erased a mitra",
  "webhook_log.read": "read a webhook's body",
  "webhook.replayed": "replayed a webhook call",
  "session.ended": "ended a session",
  "session.seeded": "imported a past session",
  "payment.confirmed": "confirmed a payment",
  "failed_pairing.actioned": "resolved a failed pairing",
  "failed_pairing.refund_requested": "asked for a refund",
  "mitra.created": "added a mitra",
  "mitra.changed": "changed a mitra",
  "mitra.forced_offline": "took a mitra offline",
  "tier.created": "added a tier",
  "tier.updated": "changed a tier",
  "tier.deleted": "removed a tier from the list",
  "tier.reactivated": "restored a tier to the list",
  "tier.reordered": "changed the order of tiers",
  "promotion.updated": "changed the discount",
  "config.set": "changed a setting",
  "operator.created": "added an operator",
  "operator.changed": "changed an operator",
  "operator.password_changed": "changed their password",
  "operator.stepped_up": "entered a new code",
  "operator.recovery_code_used": "used a recovery code",
  "operator.totp_begun": "started to set up a second factor",
  "operator.totp_enrolled": "set up a second factor",
  "operator.totp_removed": "removed their second factor",
  "operator.totp_reset": "reset a second factor",
  "role.created": "added a role",
  "role.changed": "changed a role",
};
const OBJECTS = {
  customer: "Customer",
  mitra: "Mitra",
  chat_session: "Session",
  payment_request: "Payment",
  pairing_failure: "Failed pairing",
  webhook_log: "Webhook call",
  app_config: "Setting",
  pricing_tier: "Tier",
  pricing_promotion: "Discount",
  operator: "Operator",
  role: "Role",
};
// Type of object -> [area, path] of its page.
const PLACES = {
  customer: ["customers", "/customers"],
  mitra: ["mitras", "/mitras"],
  chat_session: ["sessions", "/sessions"],
  payment_request: ["payments", "/payments"],
  pairing_failure: ["failed_pairings", "/failed-pairings"],
  webhook_log: ["webhooks", "/webhooks"],
};
const QUIET = ["updated_at"]; // changes with each change
const LIST = "list"; // the object id of a row about several objects, whose ids are in its details

const options = (words) => Object.entries(words).map(([value, word]) => [value, t(word)]);
const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);
const fields = (value) => (isObject(value) ? value : value === null ? {} : { [t("value")]: value });
const said = (value) => (typeof value === "string" ? value : JSON.stringify(value));

function link(type, id) {
  const [area, path] = PLACES[type] ?? [];
  return area ? linked(area, `${path}/${id}`, id, "id") : h("span", { class: "id" }, id);
}

function object({ object_type, object_id }) {
  const type = OBJECTS[object_type] ? t(OBJECTS[object_type]) : object_type;
  return h("span", {}, type, ": ", object_id === LIST ? t("several") : link(object_type, object_id));
}

/** The details of an entry: its list of objects, and each field with its old and new value. */
function details({ object_type, object_id, before, after }) {
  const [old, fresh] = [fields(before), fields(after)];
  const changed = Object.keys({ ...old, ...fresh }).filter(
    (name) => !QUIET.includes(name) && said(old[name]) !== said(fresh[name]),
  );
  if (!changed.length) return null;
  const value = (name) => {
    if (object_id === LIST && name === "ids") return fresh.ids.map((id) => [link(object_type, id), " "]);
    return name in old ? `${said(old[name])} → ${name in fresh ? said(fresh[name]) : "–"}` : said(fresh[name]);
  };
  return h(
    "details",
    {},
    h("summary", {}, changed.join(", ")),
    changed.map((name) => h("p", {}, h("small", {}, name, ": "), value(name))),
  );
}

class AuditLogPage extends ListPage {
  path = "/internal/audit-log";

  get heading() {
    return t("Audit log");
  }

  filters() {
    return [
      pick("action", t("Action"), options(ACTIONS)),
      pick("object_type", t("Kind of object"), options(OBJECTS)),
      search("object_id", t("Object"), t("its id, or the name of a setting")),
      search("operator_id", t("Operator"), t("the id; or choose a name in the list")),
      instant("from", t("From")),
      instant("to", t("To")),
    ];
  }

  columns() {
    const own = ({ id, display_name }) =>
      h(
        "a",
        { href: address(PATH, { ...Object.fromEntries(this.query), cursor: null, operator_id: id }) },
        display_name,
      );
    return [
      { label: t("When"), cell: (one) => time(one.created_at) },
      { label: t("Operator"), cell: (one) => own(one.operator) },
      { label: t("Action"), cell: (one) => (ACTIONS[one.action] ? t(ACTIONS[one.action]) : one.action) },
      { label: t("Object"), cell: object },
      { label: t("Details"), cell: details },
    ];
  }
}

customElements.define("audit-log-page", AuditLogPage);
