/** One's own account: who one is, and a new password. */

import { api } from "../kernel/api.js";
import { h } from "../kernel/dom.js";
import { session } from "../kernel/session.js";
import { t } from "../kernel/words.js";
import { field, form } from "../parts/form.js";
import { Page } from "../parts/page.js";
import { facts } from "../parts/table.js";
import { toast } from "../parts/toast.js";

class AccountPage extends Page {
  get heading() {
    return t("My account");
  }

  render() {
    const { display_name, email, role } = session.operator;
    return h(
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
      h("section", { class: "card" }, h("h2", {}, t("New password")), this.#password()),
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
        field(t("Present password"), input("current_password", "current-password")),
        field(t("New password"), input("new_password", "new-password"), t("12 characters at least; no common one")),
      ],
      submit: t("Change the password"),
      send: async (data) => {
        const body = { current_password: data.get("current_password"), new_password: data.get("new_password") };
        await api.post("/internal/auth/password", body);
        made.reset();
        toast(t("The password is changed."));
      },
    });
    return made;
  }
}

customElements.define("account-page", AccountPage);
