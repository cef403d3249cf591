/** The audit log: what operators changed, and which personal data they read. */

import { api } from "../kernel/api.js";
import { session } from "../kernel/session.js";
import { difference, plain, settingValue, sure } from "../parts/changes.js";
import { linked } from "../parts/linked.js";
import { instant, ListPage, person, pick, search } from "../parts/list.js";
import { words as nameOf, told } from "../parts/price.js";
import { mode } from "../parts/status.js";
import { ask } from "../shared/dialog.js";
import { h } from "../shared/dom.js";
import { address } from "../shared/router.js";
import { time } from "../shared/time.js";
import { toast } from "../shared/toast.js";
import { t } from "../shared/words.js";

const PATH = "/audit-log";
const ACTIONS = {
  "customer.read": "read a phone or e-mail",
  "session.read": "read topics or goodbyes",
  "payment_request.read": "read reasons of a payment",
  "pairing_failure.read": "read notes or reasons",
  "report.read": "read reports",
  "operator_audit_log.read": "read texts of the audit log",
  "customer.phone_searched": "looked up a phone number",
  "customer.changed": "corrected a customer's name",
  "customer.blocked": "blocked a customer",
  "customer.unblocked": "lifted a block",
  "customer.signed_out": "signed a customer out",
  "mitra.signed_out": "signed a mitra out",
  "customer.exported": "exported a customer's data",
  "customer.erased": "erased a customer",
  "mitra.exported": "exported a mitra's data",
  "mitra.erased": "erased a mitra",
  "webhook_log.read": "read a webhook's body",
  "webhook.replayed": "replayed a webhook call",
  "session.ended": "ended a session",
  "session.seeded": "imported a past session",
  "payment.confirmed": "confirmed a payment",
  "payment.accepted_short": "accepted a short payment",
  "payment.refund_requested": "asked for a refund of earned money",
  "payment.refunded_by_hand": "recorded a refund of earned money",
  "failed_pairing.actioned": "resolved a failed pairing",
  "failed_pairing.refund_requested": "asked for a refund",
  "failed_pairing.planned": "planned work on a failed pairing",
  "report.resolved": "resolved a report",
  "mitra.created": "added a mitra",
  "mitra.changed": "changed a mitra",
  "mitra.forced_offline": "took a mitra offline",
  "tier.created": "added a tier",
  "tier.updated": "changed a tier",
  "tier.deleted": "removed a tier from the list",
  "tier.reactivated": "restored a tier to the list",
  "tier.reordered": "changed the order of tiers",
  "tier.scheduled": "scheduled a price",
  "tier.unscheduled": "cancelled a scheduled price",
  "promotion.updated": "changed the discount",
  "config.set": "changed a setting",
  "simulation.asked": "asked for a simulation",
  "operator.created": "added an operator",
  "operator.changed": "changed an operator",
  "operator.unlocked": "unlocked an operator",
  "operator.password_changed": "changed their password",
  "operator.stepped_up": "entered a new code",
  "operator.recovery_code_used": "used a recovery code",
  "operator.totp_begun": "started to set up a second factor",
  "operator.totp_enrolled": "set up a second factor",
  "operator.totp_removed": "removed their second factor",
  "operator.totp_reset": "reset a second factor",
  "role.created": "added a role",
  "role.changed": "changed a role",
  "violations.accepted": "accepted violations of a rule",
};
const OBJECTS = {
  customer: "Customer",
  mitra: "Mitra",
  chat_session: "Session",
  session: "Texts of a session",
  payment_request: "Payment",
  pairing_failure: "Failed pairing",
  report: "Report",
  webhook_log: "Webhook call",
  app_config: "Setting",
  simulation: "Simulation",
  pricing_tier: "Tier",
  pricing_promotion: "Discount",
  operator: "Operator",
  role: "Role",
  operator_audit_log: "Audit log",
  audit_rule: "Rule of the ledger audit",
};
// Type of object -> [area, path] of its page.
const PLACES = {
  customer: ["customers", "/customers"],
  mitra: ["mitras", "/mitras"],
  chat_session: ["sessions", "/sessions"],
  session: ["sessions", "/sessions"],
  payment_request: ["payments", "/payments"],
  pairing_failure: ["failed_pairings", "/failed-pairings"],
  report: ["reports", "/reports"],
  webhook_log: ["webhooks", "/webhooks"],
  pricing_tier: ["pricing", "/pricing/tiers"],
};
const MODES = ["chat", "call"];
const QUIET = ["updated_at"]; // changes with each change
const FEW = 3; // changed fields of a price that need no click
const MOST = 200; // operators to choose from
const LIST = "list"; // the object id of a row about several objects, whose ids are in its details

const options = (words) => Object.entries(words).map(([value, word]) => [value, t(word)]);
const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);
const fields = (value) => (isObject(value) ? value : value === null ? {} : { [t("value")]: value });
const written = (value) => (typeof value === "string" ? value : JSON.stringify(value));

/** A link to an object, by its name if it has one. */
function link(type, id, name) {
  if (type === "pricing_promotion") return linked("pricing", "/pricing/promotion", t("First-session discount"));
  if (type === "pricing_tier" && !name) return MODES.includes(id) ? mode(id) : id; // the order of a mode
  const [area, path] = PLACES[type] ?? [];
  const look = name ? null : "id";
  return area ? linked(area, `${path}/${id}`, name ?? id, look) : h("span", { class: look }, name ?? id);
}

/** "60 min, chat" in the operator's language; other names stay. */
function said(type, name) {
  const [, minutes, kind] = (type === "pricing_tier" && /^(\d+) min, (\w+)$/.exec(name ?? "")) || [];
  return minutes ? `${t("{n} min", { n: minutes })}, ${mode(kind)}` : name;
}

function object({ object_type, object_id, object_name }, settings) {
  const setting = object_type === "app_config" && settings.get(object_id);
  if (setting) return linked(setting.area, `/settings?q=${object_id}`, setting.label);
  const type = OBJECTS[object_type] ? t(OBJECTS[object_type]) : object_type;
  const which = object_id === LIST ? t("several") : link(object_type, object_id, said(object_type, object_name));
  return h("span", { title: object_id }, type, ": ", which);
}

/** The details of an entry: its list of objects, and each field with its old and new value; of a price in words. */
function details({ object_type, object_id, before, after }) {
  const [old, fresh] = [fields(before), fields(after)];
  const changed = Object.keys({ ...old, ...fresh }).filter(
    (name) => !QUIET.includes(name) && written(old[name]) !== written(fresh[name]),
  );
  if (!changed.length) return null;
  const isPrice = object_type.startsWith("pricing_") && (isObject(before) || isObject(after));
  const say = (name, one) => (isPrice ? told(name, one) : written(one));
  const label = (name) => (isPrice ? nameOf(name) : name);
  const value = (name) => {
    if (object_id === LIST && name === "ids") return fresh.ids.map((id) => [link(object_type, id), " "]);
    const became = name in fresh ? say(name, fresh[name]) : "–";
    return name in old ? `${say(name, old[name])} → ${became}` : became;
  };
  const lines = changed.map((name) => h("p", {}, h("small", {}, label(name), ": "), value(name)));
  if (isPrice && lines.length <= FEW) return lines;
  return h("details", {}, h("summary", {}, changed.map(label).join(", ")), lines);
}

/** What a changed setting was and became. */
function changedSetting(row, { before, after }) {
  const [old, fresh] = [before?.value, after.value];
  const words = typeof old === "number" && difference(old, fresh, (one) => settingValue(row, one));
  return words || `${old === undefined ? "–" : settingValue(row, old)} → ${settingValue(row, fresh)}`;
}

class AuditLogPage extends ListPage {
  path = "/internal/audit-log";
  /** The settings that the operator may read, by key. */
  settings = new Map();

  get heading() {
    return t("Audit log");
  }

  /** The operators to choose from are all of them, or without their area those of the page. */
  async load(signal) {
    const mayRead = session.may("config") || session.may("security");
    const [found, all, rows] = await Promise.all([
      super.load(signal),
      this.all ?? (session.may("operators") ? api.get("/internal/operators", { limit: MOST }, signal) : { items: [] }),
      mayRead ? api.get("/internal/config", {}, signal) : { items: [] },
    ]);
    this.all = all;
    this.settings = new Map(rows.items.map((row) => [row.key, row]));
    const seen = [...all.items, ...found.items.map((one) => one.operator)];
    this.operators = [...new Map(seen.map((one) => [one.id, one])).values()];
    return found;
  }

  /** A button that sets a setting to its value before this change, unless it has that value. */
  #back(entry) {
    const row = entry.action === "config.set" && this.settings.get(entry.object_id);
    const earlier = entry.before?.value;
    if (!row?.used || !session.may(row.area, "write") || earlier === undefined) return null;
    if (plain(earlier) === plain(row.value)) return null;
    const words = t("Set {name} back", { name: row.label });
    return h(
      "button",
      { type: "button", "aria-label": words, onclick: () => this.#setBack(row, earlier) },
      t("Set back…"),
    );
  }

  async #setBack(row, earlier) {
    const say = (value) => settingValue(row, value);
    const change = difference(row.value, earlier, say) || `${say(row.value)} → ${say(earlier)}`;
    const done = await ask({
      title: t("Set {name} back", { name: row.label }),
      content: [h("p", {}, change)],
      submit: t("Save"),
      send: async () => {
        await sure([[row.value, earlier, say]]);
        return api.patch(`/internal/config/${row.key}`, { value: earlier, updated_at: row.updated_at ?? undefined });
      },
    });
    if (done) toast(t("Saved."));
    if (done) await this.refresh({ quietly: true });
  }

  /** The details of an entry, in words if it is about a setting. */
  #details(entry) {
    const row = entry.action === "config.set" && this.settings.get(entry.object_id);
    return row ? [h("p", {}, changedSetting(row, entry)), this.#back(entry)] : details(entry);
  }

  filters() {
    return [
      pick("action", t("Action"), options(ACTIONS)),
      pick("object_type", t("Kind of object"), options(OBJECTS)),
      search("object_id", t("Object"), t("its id, or the name of a setting")),
      person("operator_id", t("Operator"), this.operators ?? []),
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
      { label: t("Object"), cell: (one) => object(one, this.settings) },
      { label: t("Details"), cell: (one) => this.#details(one) },
    ];
  }
}

customElements.define("audit-log-page", AuditLogPage);
