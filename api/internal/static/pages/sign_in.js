/** Signing in: e-mail and password; a lockout is shown with the time that is left. */

import { ApiError, api } from "../kernel/api.js";
import { h } from "../kernel/dom.js";
import { preferences } from "../kernel/preferences.js";
import { t } from "../kernel/words.js";
import "../parts/countdown.js";
import { explain, field, form } from "../parts/form.js";

class SignInPage extends HTMLElement {
  connectedCallback() {
    document.title = `${t("Sign in")} · Sesi`;
    this.note = h("div", { role: "alert" });
    const email = h("input", { type: "email", name: "email", autocomplete: "username", required: true });
    const password = h("input", {
      type: "password",
      name: "password",
      autocomplete: "current-password",
      required: true,
    });
    const other = preferences.language === "id" ? ["en", "English"] : ["id", "Bahasa Indonesia"];
    const change = () => {
      preferences.set({ language: other[0] });
      this.dispatchEvent(new Event("looks"));
    };
    this.form = form({
      label: t("Sign in"),
      fields: [field(t("E-mail"), email), field(t("Password"), password), this.note],
      submit: t("Sign in"),
      send: (data) => this.#send(data.get("email"), data.get("password"), password),
    });
    this.replaceChildren(
      h(
        "main",
        { class: "sign-in" },
        h(
          "div",
          { class: "card" },
          h(
            "div",
            { class: "brand" },
            h("img", { src: "/internal/static/icon.svg", alt: "" }),
            h("h1", {}, t("Sesi control center")),
          ),
          this.form,
          h("button", { type: "button", class: "plain", lang: other[0], onclick: change }, other[1]),
        ),
      ),
    );
    email.focus();
  }

  async #send(email, password, control) {
    this.note.replaceChildren();
    try {
      await api.signIn(email, password);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      control.value = "";
      control.focus();
      if (error.code === "ACCOUNT_LOCKED") this.#locked(error.retryAfter);
      else this.note.replaceChildren(h("p", { class: "notice bad" }, explain(error)));
      return;
    }
    this.dispatchEvent(new Event("signed-in"));
  }

  #locked(seconds) {
    const left = h("sesi-countdown", { seconds });
    left.addEventListener("done", () =>
      this.note.replaceChildren(h("p", { class: "notice good" }, t("You may try again now."))),
    );
    this.note.replaceChildren(
      h(
        "p",
        { class: "notice warn" },
        h("span", {}, t("Too many tries: this account is locked."), " ", t("Time left:"), " ", left),
      ),
    );
  }
}

customElements.define("sign-in-page", SignInPage);
