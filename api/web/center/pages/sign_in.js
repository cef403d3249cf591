/** Sign-in: e-mail and password, then a code for a second factor. A lockout is shown with a countdown. */

import { ApiError, api } from "../kernel/api.js";
import { h } from "../shared/dom.js";
import { preferences } from "../shared/preferences.js";
import { t } from "../shared/words.js";
import "../parts/countdown.js";
import { codeInput } from "../parts/second_factor.js";
import { explain, field, form } from "../shared/form.js";

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
    this.again = h("button", { type: "button", class: "plain", lang: other[0], onclick: change }, other[1]);
    this.#show(this.form, email);
  }

  /** Show a form in the card, with the focus on `first`. */
  #show(form, first) {
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
          form,
          this.again,
        ),
      ),
    );
    first.focus();
  }

  async #send(email, password, control) {
    this.note.replaceChildren();
    let token;
    try {
      token = await api.signIn(email, password);
    } catch (error) {
      this.#refused(error, control);
      return;
    }
    if (token === null) this.dispatchEvent(new Event("signed-in"));
    else this.#askForCode(token, "code");
  }

  /** The second step: a code of the authenticator, or a recovery code. */
  #askForCode(token, kind) {
    this.note.replaceChildren();
    const other = kind === "code" ? "recovery_code" : "code";
    const control = codeInput();
    const label = { code: t("Code"), recovery_code: t("Recovery code") };
    const hint = kind === "code" ? t("from your authenticator app") : t("each works once");
    const swap = { code: t("Use a recovery code"), recovery_code: t("Use the authenticator app") };
    const step = form({
      label: t("Second factor"),
      fields: [field(label[kind], control, hint), this.note],
      submit: t("Sign in"),
      other: [h("button", { type: "button", onclick: () => this.#askForCode(token, other) }, swap[kind])],
      send: (data) => this.#verify(token, { [kind]: data.get("code").trim() }, control),
    });
    this.#show(step, control);
  }

  async #verify(token, code, control) {
    this.note.replaceChildren();
    try {
      await api.verify(token, code);
    } catch (error) {
      if (error.code === "LOGIN_TOKEN_INVALID") this.#show(this.form, this.form.elements.namedItem("email"));
      this.#refused(error, control);
      return;
    }
    this.dispatchEvent(new Event("signed-in"));
  }

  #refused(error, control) {
    if (!(error instanceof ApiError)) throw error;
    control.value = "";
    if (control.isConnected) control.focus();
    if (error.code === "ACCOUNT_LOCKED") this.#locked(error.retryAfter);
    else this.note.replaceChildren(h("p", { class: "notice bad" }, explain(error)));
  }

  #locked(seconds) {
    const left = h("sesi-countdown", { seconds });
    left.addEventListener("done", () =>
      this.note.replaceChildren(h("p", { class: "notice good" }, t("You can try again now."))),
    );
    this.note.replaceChildren(
      h(
        "p",
        { class: "notice warn" },
        h("span", {}, t("Too many attempts: this account is locked."), " ", t("Time left:"), " ", left),
      ),
    );
  }
}

customElements.define("sign-in-page", SignInPage);
