/** Customers. The service masks phone and e-mail unless the role may see them. */

import { api } from "../kernel/api.js";
import { session } from "../kernel/session.js";
import { nameOf } from "../parts/linked.js";
import { ListPage, search } from "../parts/list.js";
import { Page } from "../parts/page.js";
import { chip } from "../parts/status.js";
import { facts } from "../parts/table.js";
import { h } from "../shared/dom.js";
import { address } from "../shared/router.js";
import { time } from "../shared/time.js";
import { t } from "../shared/words.js";

const PATH = "/internal/customers";
const kind = (one) => (one.is_anonymous ? chip(t("anonymous")) : chip(t("account"), "good"));

class CustomersPage extends ListPage {
  path = PATH;

  get heading() {
    return t("Customers");
  }

  filters() {
    const hint = session.may("customers.pii") ? t("or phone or e-mail") : null;
    return [search("q", t("Name or id"), hint)];
  }

  columns() {
    return [
      { label: t("Name"), cell: (one) => h("a", { href: address(`/customers/${one.id}`) }, nameOf(one)) },
      { label: t("Kind"), cell: kind },
      { label: t("Phone"), cell: (one) => one.phone },
      { label: t("E-mail"), cell: (one) => one.email },
      { label: t("Since"), cell: (one) => time(one.created_at) },
    ];
  }
}

class CustomerPage extends Page {
  get heading() {
    return this.customer ? nameOf(this.customer) : t("Customer");
  }

  actions() {
    return [h("a", { class: "button", href: address("/customers") }, t("All customers"))];
  }

  async load(signal) {
    this.customer = await api.get(`${PATH}/${this.params.id}`, {}, signal);
    return this.customer;
  }

  render(one) {
    const belongs = one.account_belongs_to;
    return h(
      "section",
      { class: "card" },
      facts([
        [t("Kind"), kind(one)],
        [t("Phone"), one.phone],
        [t("E-mail"), one.email],
        [t("Push"), one.push_enabled ? t("yes") : t("no")],
        [t("Since"), time(one.created_at)],
        belongs && [t("Now part of"), h("a", { class: "id", href: address(`/customers/${belongs}`) }, belongs)],
        [t("Id"), h("span", { class: "id" }, one.id)],
      ]),
      !session.may("customers.pii") &&
        h("p", { class: "quiet" }, t("Phone and e-mail are masked: your role doesn't allow you to see them.")),
      h(
        "div",
        { class: "row" },
        session.may("payments") &&
          h("a", { class: "button", href: address("/payments", { q: one.id }) }, t("Payments")),
        session.may("sessions") &&
          h("a", { class: "button", href: address("/sessions", { q: one.id }) }, t("Sessions")),
      ),
    );
  }
}

customElements.define("customers-page", CustomersPage);
customElements.define("customer-page", CustomerPage);
