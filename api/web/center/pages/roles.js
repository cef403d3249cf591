/** Roles: which areas an operator may read or write. */

import { api } from "../kernel/api.js";
import { session } from "../kernel/session.js";
import { saveChanges } from "../parts/changes.js";
import { ListPage } from "../parts/list.js";
import { handOver } from "../parts/second_factor.js";
import { chip } from "../parts/status.js";
import { ask } from "../shared/dialog.js";
import { h } from "../shared/dom.js";
import { field, select, tick } from "../shared/form.js";
import { number } from "../shared/format.js";
import { toast } from "../shared/toast.js";
import { t } from "../shared/words.js";

const PATH = "/internal/roles";
const MOST = 200; // operators whose names are shown with their codes
const EVERYTHING = "*";
const AREAS = {
  [EVERYTHING]: "everything",
  config: "settings",
  security: "limits of sign-in, lockout and retention",
  pricing: "prices",
  mitras: "mitras",
  customers: "customers",
  "customers.pii": "phones and e-mails of customers, and texts that people wrote",
  operators: "operators and roles",
  activity: "overview and activity",
  failed_pairings: "failed pairings",
  reports: "reports",
  sessions: "sessions",
  payments: "payments and ledger audit",
  webhooks: "webhook log",
  audit: "audit log",
};
const ACCESS = { read: "read", write: "read and write" };

class RolesPage extends ListPage {
  path = PATH;

  get heading() {
    return t("Roles");
  }

  get may() {
    return session.may("operators", "write");
  }

  actions() {
    return this.may
      ? [h("button", { class: "primary", type: "button", onclick: () => this.#add() }, t("Add a role…"))]
      : [];
  }

  columns() {
    const granted = ({ permissions }) =>
      Object.entries(permissions).map(([area, access]) => [
        chip(`${t(AREAS[area] ?? area)}: ${t(ACCESS[access])}`, access === "write" ? "busy" : ""),
        " ",
      ]);
    const columns = [
      { label: t("Name"), cell: (role) => role.name },
      { label: t("Operators"), cell: (role) => number(role.operator_count), number: true },
      { label: t("Permissions"), cell: (role) => h("span", {}, granted(role)) },
      { label: t("Second factor"), cell: (role) => (role.totp_required ? chip(t("required"), "good") : "–") },
    ];
    const edit = (role) =>
      h(
        "button",
        { type: "button", "aria-label": t("Edit {name}", { name: role.name }), onclick: () => this.#edit(role) },
        t("Edit…"),
      );
    return this.may ? [...columns, { label: t("Change"), cell: edit }] : columns;
  }

  #fields(role) {
    const options = [["", t("nothing")], ...Object.entries(ACCESS).map(([value, words]) => [value, t(words)])];
    const areas = Object.entries(AREAS).map(([area, words]) =>
      field(t(words), select({ name: `area:${area}` }, options, role?.permissions[area] ?? "")),
    );
    return [
      field(t("Name"), h("input", { name: "name", required: true, value: role?.name ?? "", autocomplete: "off" })),
      tick(t("Its operators need a second factor"), { name: "require_totp", checked: role?.require_totp ?? false }),
      h("fieldset", {}, h("legend", {}, t("Permissions")), h("div", { class: "permissions" }, areas)),
    ];
  }

  #read(data) {
    const chosen = Object.keys(AREAS).map((area) => [area, data.get(`area:${area}`)]);
    return {
      name: data.get("name").trim(),
      require_totp: data.has("require_totp"),
      permissions: Object.fromEntries(chosen.filter(([, access]) => access)),
    };
  }

  async #after(asked) {
    const done = await asked;
    if (done?.enrolment_codes?.length) await this.#handOver(done.enrolment_codes);
    if (done) toast(t("Saved."));
    await this.refresh({ quietly: true });
  }

  /** Show the codes of the operators who need a second factor from now on, one after the other. */
  async #handOver(codes) {
    const { items } = await api.get("/internal/operators", { limit: MOST });
    const names = new Map(items.map((one) => [one.id, one.display_name]));
    for (const one of codes) await handOver(one, names.get(one.operator_id) ?? one.operator_id);
  }

  #add() {
    return this.#after(
      ask({
        title: t("Add a role"),
        content: this.#fields(null),
        submit: t("Add"),
        send: (data) => api.post(PATH, this.#read(data)),
      }),
    );
  }

  #edit(role) {
    const send = (data) => saveChanges(`${PATH}/${role.id}`, role, this.#read(data));
    return this.#after(
      ask({ title: t("Edit {name}", { name: role.name }), content: this.#fields(role), submit: t("Save"), send }),
    );
  }
}

customElements.define("roles-page", RolesPage);
