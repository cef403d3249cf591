/** Operators and their roles: add, change, switch off. */

import { ApiError, api } from "../kernel/api.js";
import { session } from "../kernel/session.js";
import { saveChanges } from "../parts/changes.js";
import { ListPage } from "../parts/list.js";
import { handOver } from "../parts/second_factor.js";
import { chip } from "../parts/status.js";
import { ask, confirm } from "../shared/dialog.js";
import { h } from "../shared/dom.js";
import { explain, field, select } from "../shared/form.js";
import { time } from "../shared/time.js";
import { toast } from "../shared/toast.js";
import { t } from "../shared/words.js";

const PATH = "/internal/operators";
const MOST = 200;
const RULES = "at least 12 characters; not a common password";

function state(one) {
  if (one.disabled) return chip(t("disabled"));
  if (one.locked_until)
    return h("span", {}, chip(t("locked"), "warn"), " ", h("small", {}, t("until"), " ", time(one.locked_until)));
  return one.has_password ? chip(t("can sign in"), "good") : chip(t("no password"), "warn");
}

/** Read all roles. If the select lacked an operator's role, saving would change it. */
async function allRoles() {
  const found = [];
  let cursor = null;
  do {
    const page = await api.get("/internal/roles", { limit: MOST, cursor });
    found.push(...page.items);
    cursor = page.next_cursor;
  } while (cursor);
  return found;
}

class OperatorsPage extends ListPage {
  path = PATH;

  get heading() {
    return t("Operators");
  }

  get may() {
    return session.may("operators", "write");
  }

  actions() {
    return this.may
      ? [h("button", { class: "primary", type: "button", onclick: () => this.#add() }, t("Add an operator…"))]
      : [];
  }

  /** The roles say whose operators need a second factor. */
  async load(signal) {
    const [found, roles] = await Promise.all([super.load(signal), this.may ? allRoles() : []]);
    this.strict = new Set(roles.filter((role) => role.totp_required).map(({ id }) => id));
    return found;
  }

  columns() {
    const columns = [
      {
        label: t("Name"),
        cell: (one) => h("span", {}, one.display_name, one.id === session.operator.id && [" ", chip(t("you"), "busy")]),
      },
      { label: t("E-mail"), cell: (one) => one.email },
      { label: t("Role"), cell: (one) => one.role },
      { label: t("State"), cell: (one) => [state(one), one.has_totp && [" ", chip(t("second factor"), "good")]] },
      { label: t("Since"), cell: (one) => time(one.created_at) },
    ];
    const buttons = (one) =>
      h(
        "span",
        { class: "row" },
        h(
          "button",
          {
            type: "button",
            "aria-label": t("Edit {name}", { name: one.display_name }),
            onclick: () => this.#edit(one),
          },
          t("Edit…"),
        ),
        this.#switch(one),
        this.#reset(one),
      );
    return this.may ? [...columns, { label: t("Change"), cell: buttons }] : columns;
  }

  #switch(one) {
    if (one.id === session.operator.id) return null;
    const name = one.display_name;
    const change = () => api.patch(`${PATH}/${one.id}`, { disabled: !one.disabled });
    const off = () =>
      confirm(
        t("Disable {name}?", { name }),
        t("The operator is signed out everywhere and can't sign in."),
        t("Disable"),
        change,
      );
    const on = () =>
      confirm(t("Enable {name}?", { name }), t("The operator can sign in again."), t("Enable"), change, false);
    const words = one.disabled ? t("Enable…") : t("Disable…");
    return h(
      "button",
      {
        type: "button",
        class: !one.disabled && "danger",
        "aria-label": `${words} ${name}`,
        onclick: () => this.#after(one.disabled ? on() : off()),
      },
      words,
    );
  }

  /**
   * Only an operator with a second factor may reset that of another. One who needs a second factor and has none gets a new
   * one-time code in the same way.
   */
  #reset(one) {
    if (one.id === session.operator.id || !session.operator.totp_enabled) return null;
    if (!one.has_totp && !this.strict.has(one.role_id)) return null;
    const name = one.display_name;
    const words = one.has_totp ? t("Reset second factor…") : t("One-time code…");
    const asked = async () => {
      const done = await confirm(
        one.has_totp
          ? t("Reset the second factor of {name}?", { name })
          : t("A new one-time code for {name}?", { name }),
        one.has_totp
          ? t("The operator is signed out everywhere and signs in with the password alone, or sets up a new one.")
          : t("The operator sets up a second factor with it. An earlier code is no longer valid."),
        one.has_totp ? t("Reset") : t("Make the code"),
        () => api.post(`${PATH}/${one.id}/reset-totp`),
        one.has_totp,
      );
      return handOver(done, name);
    };
    return h(
      "button",
      {
        type: "button",
        class: one.has_totp && "danger",
        "aria-label": `${words} ${name}`,
        onclick: () => this.#after(asked()),
      },
      words,
    );
  }

  async #after(done) {
    if (await done) toast(t("Saved."));
    await this.refresh({ quietly: true });
  }

  async #fields(one) {
    const roles = (await allRoles()).map((role) => [role.id, role.name]);
    return [
      field(
        t("Name"),
        h("input", { name: "display_name", required: true, value: one?.display_name ?? "", autocomplete: "off" }),
      ),
      field(
        t("E-mail"),
        h("input", { type: "email", name: "email", required: true, value: one?.email ?? "", autocomplete: "off" }),
      ),
      field(t("Role"), select({ name: "role_id" }, roles, one?.role_id)),
      // Operators change their own password in their account, which asks for the present one.
      one?.id !== session.operator.id &&
        field(
          one ? t("New password") : t("Password"),
          h("input", { type: "password", name: "password", autocomplete: "new-password" }),
          one ? t("leave empty to keep the current one") : t(RULES),
        ),
    ];
  }

  /** Return the form's values; an empty password counts as null. */
  #read(data) {
    const values = {
      display_name: data.get("display_name").trim(),
      email: data.get("email").trim(),
      role_id: data.get("role_id"),
    };
    return data.get("password") ? { ...values, password: data.get("password") } : values;
  }

  #add() {
    const send = (data) => api.post(PATH, this.#read(data));
    return this.#ask(null, (content) => ask({ title: t("Add an operator"), content, submit: t("Add"), send }));
  }

  #edit(one) {
    const send = (data) => saveChanges(`${PATH}/${one.id}`, one, this.#read(data));
    return this.#ask(one, (content) =>
      ask({ title: t("Edit {name}", { name: one.display_name }), content, submit: t("Save"), send }),
    );
  }

  /** Read the roles, then open the dialog; one at a time. */
  async #ask(one, asked) {
    if (this.asking) return;
    this.asking = true;
    try {
      const content = await this.#fields(one);
      const done = await asked(content);
      await this.#after(handOver(done, done?.display_name));
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      toast(explain(error));
    } finally {
      this.asking = false;
    }
  }
}

customElements.define("operators-page", OperatorsPage);
