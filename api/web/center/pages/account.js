/** The operator's own account: who they are, their second factor, their password and their sign-ins. */

import { api } from "../kernel/api.js";
import { session } from "../kernel/session.js";
import { Page } from "../parts/page.js";
import { remove, setUp } from "../parts/second_factor.js";
import { chip } from "../parts/status.js";
import { facts, table } from "../parts/table.js";
import { confirm } from "../shared/dialog.js";
import { h } from "../shared/dom.js";
import { field, form } from "../shared/form.js";
import { age, time } from "../shared/time.js";
import { toast } from "../shared/toast.js";
import { t } from "../shared/words.js";

const SESSIONS = "/internal/auth/sessions";
const MOST = 200;

class AccountPage extends Page {
  get heading() {
    return t("My account");
  }

  async load(signal) {
    if (session.mustChangePassword) return { operator: session.operator, sessions: null };
    const [operator, sessions] = await Promise.all([
      api.get("/internal/auth/me", {}, signal),
      api.get(SESSIONS, { limit: MOST }, signal),
    ]);
    return { operator, sessions: sessions.items };
  }

  render({ operator, sessions }) {
    const { display_name, email, role } = operator;
    return [
      session.confined &&
        h(
          "p",
          { class: "notice warn" },
          session.mustChangePassword
            ? t("An administrator set your password. Replace it to continue.")
            : t("Your role requires a second factor. Set it up first."),
        ),
      h(
        "div",
        { class: "cards" },
        h(
          "section",
          { class: "card" },
          facts([
            [t("Name"), display_name],
            [t("E-mail"), email],
            [t("Role"), role],
          ]),
        ),
        !session.mustChangePassword &&
          h("section", { class: "card" }, h("h2", {}, t("Second factor")), this.#secondFactor(operator)),
        (session.mustChangePassword || !session.mustEnrol) &&
          h("section", { class: "card" }, h("h2", {}, t("New password")), this.#password()),
      ),
      sessions && [h("h2", {}, t("Where you are signed in")), this.#sessions(sessions)],
    ].filter(Boolean);
  }

  #secondFactor(operator) {
    const { totp_enabled, totp_required, recovery_codes_left } = operator;
    const button = (words, action, looks) =>
      h("button", { type: "button", class: looks, onclick: () => this.#changed(action) }, words);
    if (!totp_enabled)
      return [
        h(
          "p",
          {},
          t(
            "A code from an app on your phone, in addition to the password. Without it, a stolen password is enough to sign in.",
          ),
        ),
        h(
          "div",
          { class: "row" },
          button(t("Set it up…"), () => setUp(operator), "primary"),
        ),
      ];
    return [
      facts([
        [t("State"), chip(t("in use"), "good")],
        [t("Recovery codes left"), String(recovery_codes_left)],
      ]),
      h(
        "div",
        { class: "row" },
        button(t("Replace…"), () => setUp(operator)),
        !totp_required && button(t("Remove…"), remove, "danger"),
      ),
    ];
  }

  /** Read the operator again after a change of the second factor, because the menu may change. */
  async #changed(action) {
    const done = await action();
    if (!done) return;
    toast(t("Saved."));
    const before = session.mustEnrol;
    session.operator = await api.get("/internal/auth/me");
    if (before) dispatchEvent(new Event("operator-changed"));
    else await this.refresh({ quietly: true });
  }

  #sessions(sessions) {
    const device = ({ device_info: { platform, user_agent } }) => platform ?? user_agent ?? t("unknown device");
    const end = (one) =>
      confirm(t("Sign out this device?"), device(one), t("Sign out"), () => api.delete(`${SESSIONS}/${one.id}`));
    const button = (one) =>
      one.current
        ? chip(t("this device"), "busy")
        : h(
            "button",
            {
              type: "button",
              class: "danger",
              onclick: async () => {
                if (await end(one)) toast(t("Signed out."));
                await this.refresh({ quietly: true });
              },
            },
            t("Sign out…"),
          );
    return table(
      t("Where you are signed in"),
      [
        { label: t("Device"), cell: device },
        { label: t("Since"), cell: (one) => time(one.created_at) },
        { label: t("Last used"), cell: (one) => age(one.last_used_at) },
        { label: t("Ends"), cell: (one) => time(one.expires_at) },
        { label: t("Change"), cell: button },
      ],
      sessions,
    );
  }

  #password() {
    const input = (name, autocomplete) => h("input", { type: "password", name, autocomplete, required: true });
    const made = form({
      label: t("New password"),
      fields: [
        h("input", {
          type: "text",
          name: "username",
          autocomplete: "username",
          value: session.operator.email,
          hidden: true,
        }),
        field(t("Current password"), input("current_password", "current-password")),
        field(
          t("New password"),
          input("new_password", "new-password"),
          t("at least 12 characters; not a common password"),
        ),
      ],
      submit: t("Change the password"),
      send: async (data) => {
        const body = { current_password: data.get("current_password"), new_password: data.get("new_password") };
        const before = session.confined;
        session.operator = await api.post("/internal/auth/password", body);
        made.reset();
        if (before) dispatchEvent(new Event("operator-changed"));
        toast(t("Password changed."));
      },
    });
    return made;
  }
}

customElements.define("account-page", AccountPage);
