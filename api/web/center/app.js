/** The control center's frame: sign-in, top bar, menu, and the page that the address names. */

import { api, onCodeWanted } from "./kernel/api.js";
import { DICTIONARY } from "./kernel/dictionary.js";
import { onSignedOut, session } from "./kernel/session.js";
import "./parts/audit_banner.js";
import { trouble } from "./parts/page.js";
import "./parts/search.js";
import { stepUp } from "./parts/second_factor.js";
import "./parts/work_count.js";
import { h } from "./shared/dom.js";
import { field, select } from "./shared/form.js";
import { preferences } from "./shared/preferences.js";
import { address, here, match, route } from "./shared/router.js";
import { addWords, t } from "./shared/words.js";
import "./pages/account.js";
import "./pages/activity.js";
import "./pages/audit_log.js";
import "./pages/customers.js";
import "./pages/failed_pairings.js";
import "./pages/figures.js";
import "./pages/ledger.js";
import "./pages/mitras.js";
import "./pages/operators.js";
import "./pages/overview.js";
import "./pages/payments.js";
import "./pages/pricing.js";
import "./pages/promises.js";
import "./pages/reports.js";
import "./pages/roles.js";
import "./pages/sessions.js";
import "./pages/settings.js";
import "./pages/sign_in.js";
import "./pages/tier_history.js";
import "./pages/unserved.js";
import "./pages/webhooks.js";
import "./pages/what_if.js";

addWords(DICTIONARY);

route("/", "overview-page", null);
route("/failed-pairings", "failed-pairings-page", "failed_pairings");
route("/failed-pairings/:id", "failed-pairing-page", "failed_pairings");
route("/reports", "reports-page", "reports");
route("/reports/:id", "report-page", "reports");
route("/payments", "payments-page", "payments");
route("/payments/:id", "payment-page", "payments");
route("/sessions", "sessions-page", "sessions");
route("/sessions/:id", "session-page", "sessions");
route("/mitras", "mitras-page", "mitras");
route("/mitras/:id", "mitra-page", "mitras");
route("/activity", "activity-page", "activity");
route("/activity/log", "activity-log-page", "activity");
route("/figures", "figures-page", ["payments", "activity"]);
// The parts of the figures keep their earlier addresses.
for (const parent of ["", "/figures"]) {
  route(`${parent}/unserved`, "unserved-page", "activity");
  route(`${parent}/promises`, "promises-page", "activity");
}
route("/customers", "customers-page", "customers");
route("/customers/:id", "customer-page", "customers");
route("/pricing", "pricing-page", "pricing");
route("/pricing/tiers/:id", "tier-history-page", "pricing");
route("/pricing/promotion", "promotion-history-page", "pricing");
route("/settings", "settings-page", ["config", "security"]);
route("/settings/what-if", "what-if-page", "config");
route("/webhooks", "webhooks-page", "webhooks");
route("/webhooks/:id", "webhook-page", "webhooks");
route("/operators", "operators-page", "operators");
route("/roles", "roles-page", "operators");
route("/audit-log", "audit-log-page", "audit");
route("/ledger", "ledger-page", "payments");
route("/account", "account-page", null);

// Groups of the menu: [path, English label, area, kind of work that is counted]. Entries that the role may not read are
// left out.
const MENU = [
  [
    ["/", "Overview", null],
    ["/failed-pairings", "Failed pairings", "failed_pairings", "failures"],
    ["/reports", "Reports", "reports", "reports"],
  ],
  [
    ["/payments", "Payments", "payments"],
    ["/sessions", "Sessions", "sessions"],
    ["/webhooks", "Webhook log", "webhooks"],
    ["/figures", "Figures", ["payments", "activity"]],
    ["/ledger", "Ledger audit", "payments"],
  ],
  [
    ["/mitras", "Mitras", "mitras"],
    ["/activity", "Mitra activity", "activity"],
    ["/customers", "Customers", "customers"],
  ],
  [
    ["/pricing", "Pricing", "pricing"],
    ["/settings", "Settings", ["config", "security"]],
    ["/operators", "Operators", "operators"],
    ["/roles", "Roles", "operators"],
    ["/audit-log", "Audit log", "audit"],
  ],
];

class App extends HTMLElement {
  async connectedCallback() {
    preferences.apply();
    addEventListener("hashchange", () => this.#open());
    addEventListener("operator-changed", () => this.#begin());
    onSignedOut(() => this.#signIn());
    onCodeWanted(stepUp);
    this.replaceChildren(h("p", { class: "loading" }, t("Loading…")));
    if (session.tokens || (await session.askOtherTabs())) await this.#begin();
    else this.#signIn();
  }

  /** Read who is signed in, and show the frame. */
  async #begin() {
    try {
      session.operator ??= await api.get("/internal/auth/me");
    } catch (error) {
      if (error.status !== 401)
        this.replaceChildren(
          h(
            "main",
            {},
            trouble(error, () => this.#begin()),
          ),
        );
      return;
    }
    this.#frame();
    this.#open();
  }

  #signIn() {
    for (const open of document.querySelectorAll("dialog")) open.close();
    const page = document.createElement("sign-in-page");
    page.addEventListener("signed-in", () => this.#begin());
    page.addEventListener("looks", () => this.#signIn());
    this.replaceChildren(page);
  }

  #frame() {
    const { display_name, role } = session.operator;
    this.menu = h("nav", { class: "menu", id: "menu", "aria-label": t("Menu") }, this.#groups(), this.#looks());
    const toggle = () => this.#menu(!this.menu.classList.contains("open"));
    this.button = h(
      "button",
      { class: "menu-button", type: "button", "aria-controls": "menu", onclick: toggle },
      t("Menu"),
    );
    this.#menu(false);
    this.main = h("main", { id: "page" });
    const skip = (event) => {
      event.preventDefault();
      this.main.querySelector("h1")?.focus();
    };
    this.replaceChildren(
      h("a", { class: "skip", href: "#page", onclick: skip }, t("Skip to the page")),
      h(
        "header",
        { class: "bar" },
        this.button,
        h("a", { class: "brand", href: "#/" }, h("img", { src: "/internal/static/icon.svg", alt: "" }), "Sesi"),
        !session.confined && h("search-button"),
        h("div", { class: "who" }, h("div", {}, display_name), h("small", {}, role)),
        h("button", { class: "plain", type: "button", onclick: () => api.signOut() }, t("Sign out")),
      ),
      ...(!session.confined && session.may("payments") ? [h("audit-banner")] : []),
      h("div", { class: "frame" }, this.menu, this.main),
      h("div", { class: "toasts", role: "status", "aria-live": "polite" }),
    );
  }

  #groups() {
    if (session.confined) return [];
    const groups = MENU.map((group) => group.filter(([, , area]) => area === null || session.may(area)));
    return groups
      .filter((group) => group.length)
      .map((group) =>
        h(
          "ul",
          {},
          group.map(([path, words, , kind]) =>
            h("li", {}, h("a", { href: address(path) }, t(words), kind && h("work-count", { kind }))),
          ),
        ),
      );
  }

  #looks() {
    const change = (name) => (event) => {
      preferences.set({ [name]: event.target.value });
      this.#frame();
      this.#open();
      this.menu.querySelector(`[name=${name}]`).focus();
    };
    const themes = [
      ["system", t("system default")],
      ["light", t("light")],
      ["dark", t("dark")],
    ];
    const languages = [
      ["en", "English"],
      ["id", "Bahasa Indonesia"],
    ];
    return h(
      "div",
      { class: "looks" },
      h("a", { href: address("/account") }, t("My account")),
      field(t("Colours"), select({ name: "theme", onchange: change("theme") }, themes, preferences.theme)),
      field(t("Language"), select({ name: "language", onchange: change("language") }, languages, preferences.language)),
    );
  }

  #menu(open) {
    this.menu.classList.toggle("open", open);
    this.button.setAttribute("aria-expanded", String(open));
  }

  /** Show the page that the address names. */
  #open() {
    if (!this.main?.isConnected) return;
    const { path, query } = here();
    const found = match(session.confined ? "/account" : path);
    for (const link of this.menu.querySelectorAll("a")) {
      const target = link.getAttribute("href").slice(1);
      const inside = target === "/" ? path === "/" : path === target || path.startsWith(`${target}/`);
      const nearer =
        inside &&
        [...this.menu.querySelectorAll("a")].some((other) => {
          const another = other.getAttribute("href").slice(1);
          return another.length > target.length && (path === another || path.startsWith(`${another}/`));
        });
      if (inside && !nearer) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    this.#menu(false);
    for (const open of document.querySelectorAll("dialog:not([aria-busy=true])")) open.close();
    if (found === null || (found.area && !session.may(found.area))) {
      const code = found === null ? "NOT_FOUND" : "FORBIDDEN";
      document.title = "Sesi";
      this.main.replaceChildren(trouble({ code }, null));
      return;
    }
    const page = document.createElement(found.tag);
    page.params = found.params;
    page.query = query;
    const first = !this.main.hasChildNodes();
    this.main.replaceChildren(page);
    if (first) return;
    scrollTo(0, 0);
    page.querySelector("h1")?.focus();
  }
}

customElements.define("sesi-app", App);
