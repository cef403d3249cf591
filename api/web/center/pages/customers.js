/**
 * Customers: the list, and the page of one with their money, chats and devices, and what operators do about them. The
 * service masks phone and e-mail unless the role may see them.
 */

import { api } from "../kernel/api.js";
import { session } from "../kernel/session.js";
import { nameOf, written } from "../parts/linked.js";
import { ListPage, search } from "../parts/list.js";
import { Page } from "../parts/page.js";
import { caseOf, devices, eraseData, exportData, lists, sumTiles } from "../parts/person.js";
import { chip } from "../parts/status.js";
import { facts } from "../parts/table.js";
import { ask, confirm } from "../shared/dialog.js";
import { h } from "../shared/dom.js";
import { field } from "../shared/form.js";
import { moment } from "../shared/format.js";
import { address } from "../shared/router.js";
import { time } from "../shared/time.js";
import { toast } from "../shared/toast.js";
import { t } from "../shared/words.js";

const PATH = "/internal/customers";
const LONGEST_REASON = 500;
const PROVIDERS = { a: "identity A", b: "identity B" };

const kind = (one) => {
  if (one.erased_at) return chip(t("erased"));
  return one.is_anonymous ? chip(t("anonymous")) : chip(t("account"), "good");
};
const blocked = ({ block }) =>
  block && chip(block.until ? t("blocked until {time}", { time: moment(block.until) }) : t("blocked"), "bad");

class CustomersPage extends ListPage {
  path = PATH;

  get heading() {
    return t("Customers");
  }

  filters() {
    const hint = session.may("customers.pii") ? t("or phone or e-mail") : t("or a whole phone number");
    return [search("q", t("Name or id"), hint)];
  }

  columns() {
    return [
      { label: t("Name"), cell: (one) => h("a", { href: address(`/customers/${one.id}`) }, nameOf(one)) },
      { label: t("Kind"), cell: (one) => h("span", { class: "row" }, kind(one), blocked(one)) },
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

  get #path() {
    return `${PATH}/${this.params.id}`;
  }

  actions() {
    return [h("a", { class: "button", href: address("/customers") }, t("All customers"))];
  }

  async load(signal) {
    const [customer, found] = await Promise.all([
      api.get(this.#path, {}, signal),
      caseOf(this.#path, this.params.id, signal),
    ]);
    this.customer = customer;
    return { customer, found };
  }

  render({ customer, found }) {
    const may = session.may("customers", "write");
    return [
      found.sums && sumTiles(found.sums),
      this.#facts(customer),
      ...lists(customer.id, found, { isMitra: false }),
      devices(this.#path, found.devices, { may, name: nameOf(customer), again: () => this.refresh({ quietly: true }) }),
    ];
  }

  #facts(one) {
    const belongs = one.account_belongs_to;
    const ways = [one.phone && t("phone"), ...one.identities.map((name) => t(PROVIDERS[name]))].filter(Boolean);
    return h(
      "section",
      { class: "card" },
      facts([
        [t("Kind"), h("span", { class: "row" }, kind(one), blocked(one))],
        one.block && [
          t("Blocked"),
          h("span", {}, time(one.block.blocked_at), ": ", one.block.reason && written(one.block.reason)),
        ],
        one.erased_at && [t("Erased"), time(one.erased_at)],
        [t("Phone"), one.phone],
        [t("E-mail"), one.email],
        [t("Signs in with"), ways.length ? ways.join(", ") : t("this device only")],
        [t("Push"), one.push_enabled ? t("yes") : t("no")],
        [t("Since"), time(one.created_at)],
        belongs && [t("Now part of"), h("a", { class: "id", href: address(`/customers/${belongs}`) }, belongs)],
        [t("Id"), h("span", { class: "id" }, one.id)],
      ]),
      !session.may("customers.pii") &&
        h("p", { class: "quiet" }, t("Phone and e-mail are masked: your role doesn't allow you to see them.")),
      session.may("customers", "write") && !belongs && !one.erased_at && this.#acts(one),
    );
  }

  #acts(one) {
    const button = (words, act, look) =>
      h("button", { type: "button", class: look, onclick: () => this.#after(act(one)) }, words);
    return h(
      "div",
      { class: "row" },
      button(t("Correct the name…"), (who) => this.#rename(who)),
      one.block
        ? button(t("Lift the block…"), (who) => this.#unblock(who))
        : button(t("Block…"), (who) => this.#block(who), "danger"),
      session.may("customers.pii") && button(t("Export…"), (who) => this.#export(who)),
      button(t("Erase…"), (who) => this.#erase(who), "danger"),
    );
  }

  /** Say what an act has done, and read the page again. */
  async #after(act) {
    const said = await act;
    if (said) toast(said);
    await this.refresh({ quietly: true });
  }

  async #rename(one) {
    const input = h("input", {
      name: "display_name",
      required: true,
      autocomplete: "off",
      value: one.display_name ?? "",
    });
    const done = await ask({
      title: t("Correct the name of {name}", { name: nameOf(one) }),
      content: [field(t("Name"), input, t("Mitras of their open chats see it at once."))],
      submit: t("Save"),
      send: (data) => api.patch(this.#path, { display_name: data.get("display_name").trim() }),
    });
    return done && t("Saved.");
  }

  async #block(one) {
    const done = await ask({
      title: t("Block {name}?", { name: nameOf(one) }),
      content: [
        h(
          "p",
          {},
          t(
            "The account can't pay, extend or search. Running chats and paid searches go on, and pending payments end.",
          ),
        ),
        field(
          t("Reason"),
          h("textarea", { name: "reason", rows: "3", maxlength: String(LONGEST_REASON), required: true }),
          t("for other operators"),
        ),
        field(t("Until"), h("input", { type: "datetime-local", name: "until" }), t("empty: until you lift the block")),
      ],
      submit: t("Block"),
      danger: true,
      send: (data) => {
        const until = data.get("until");
        const body = { reason: data.get("reason").trim(), ...(until && { until: new Date(until).toISOString() }) };
        return api.post(`${this.#path}/block`, body);
      },
    });
    return done && t("{name} is blocked.", { name: nameOf(one) });
  }

  async #unblock(one) {
    const title = t("Lift the block of {name}?", { name: nameOf(one) });
    const act = () => api.post(`${this.#path}/unblock`);
    const done = await confirm(title, t("The account can pay and search again."), t("Lift the block"), act, false);
    return done && t("The block is lifted.");
  }

  async #export(one) {
    const said = t(
      "The file has everything that is stored of this customer, with the texts of their chats. It is for the customer: send it over a channel that you trust, then delete it. Your name is recorded.",
    );
    return (await exportData(this.#path, one, said)) && t("The file is saved.");
  }

  async #erase(one) {
    const said = t(
      "The account is signed out, and its name, phone, e-mail and texts are erased. Records of money stay. First refund what is owed: afterwards there is no way to reach the person. This can't be undone.",
    );
    const done = await eraseData(this.#path, one, said);
    return done && t("{name} is erased. The texts follow within minutes.", { name: nameOf(one) });
  }
}

customElements.define("customers-page", CustomersPage);
customElements.define("customer-page", CustomerPage);
