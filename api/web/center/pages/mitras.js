/**
 * Mitras: who is online or busy; add, activate or deactivate a mitra, take one offline, see their chat requests, and
 * export or erase their data.
 */

import { api } from "../kernel/api.js";
import { session } from "../kernel/session.js";
import { saveChanges } from "../parts/changes.js";
import { ListPage, pick, search } from "../parts/list.js";
import { Page } from "../parts/page.js";
import { caseOf, devices, eraseData, exportData, lists, sumTiles } from "../parts/person.js";
import { asked, fairness, outcome } from "../parts/requests.js";
import { chip } from "../parts/status.js";
import { facts, table } from "../parts/table.js";
import { ask, confirm } from "../shared/dialog.js";
import { h } from "../shared/dom.js";
import { field, tick } from "../shared/form.js";
import { duration, number, percent } from "../shared/format.js";
import { address, go } from "../shared/router.js";
import { age, time } from "../shared/time.js";
import { toast } from "../shared/toast.js";
import { t } from "../shared/words.js";

const PATH = "/internal/mitras";
const LATELY = 5;
const yesNo = () => [
  ["true", t("yes")],
  ["false", t("no")],
];

function state(one) {
  if (one.erased_at) return chip(t("erased"));
  if (!one.is_active) return chip(t("inactive"));
  if (!one.is_online) return chip(t("offline"));
  return one.active_session_count > 0
    ? chip(t("online, chats: {n}", { n: one.active_session_count }), "busy")
    : chip(t("online, available"), "good");
}

/** The form fields of a mitra. */
const fields = (one) => [
  field(
    t("Phone"),
    h("input", { type: "tel", name: "phone", required: true, value: one?.phone ?? "", autocomplete: "off" }),
    t("with the country, as in +62812…"),
  ),
  field(
    t("Name"),
    h("input", { name: "display_name", required: true, value: one?.display_name ?? "", autocomplete: "off" }),
  ),
];

class MitrasPage extends ListPage {
  path = PATH;

  get heading() {
    return t("Mitras");
  }

  actions() {
    if (!session.may("mitras", "write")) return [];
    return [h("button", { class: "primary", type: "button", onclick: () => this.#add() }, t("Add a mitra…"))];
  }

  filters() {
    return [
      search("q", t("Name or phone")),
      pick("is_active", t("Active"), yesNo()),
      pick("is_online", t("Online"), yesNo()),
    ];
  }

  columns() {
    return [
      { label: t("Name"), cell: (one) => h("a", { href: address(`/mitras/${one.id}`) }, one.display_name) },
      { label: t("Phone"), cell: (one) => one.phone },
      { label: t("State"), cell: state },
      { label: t("Last seen"), cell: (one) => age(one.last_heartbeat_at) },
    ];
  }

  /** Without presence checks their column is left out. */
  list({ items }) {
    const answered = { label: t("Answered a presence check"), cell: (one) => age(one.reachable_at) };
    const columns = items.some(({ reachable_at: at }) => at) ? [...this.columns(), answered] : this.columns();
    return table(this.heading, columns, items);
  }

  async #add() {
    const made = await ask({
      title: t("Add a mitra"),
      content: [fields(), tick(t("Can go online immediately"), { name: "is_active", checked: true })],
      submit: t("Add"),
      send: (data) =>
        api.post(PATH, {
          phone: data.get("phone").trim(),
          display_name: data.get("display_name").trim(),
          is_active: data.has("is_active"),
        }),
    });
    if (!made) return;
    toast(t("{name} added.", { name: made.display_name }));
    go(`/mitras/${made.id}`);
  }
}

class MitraPage extends Page {
  get heading() {
    if (this.mitra?.erased_at) return t("no name");
    return this.mitra?.display_name ?? t("Mitra");
  }

  actions() {
    return [h("a", { class: "button", href: address("/mitras") }, t("All mitras"))];
  }

  get #path() {
    return `${PATH}/${this.params.id}`;
  }

  async load(signal) {
    const id = this.params.id;
    const mitra = await api.get(this.#path, {}, signal);
    const seen = session.may("activity");
    const [found, summary, log] = await Promise.all([
      caseOf(this.#path, id, signal),
      seen ? api.get("/internal/mitra-activity/summary", { mitra_id: id }, signal) : null,
      seen ? api.get("/internal/mitra-activity/log", { mitra_id: id, limit: LATELY }, signal) : null,
    ]);
    this.mitra = mitra;
    return { mitra, found, summary: summary?.items.find((one) => one.mitra.id === id), log };
  }

  render({ mitra, found, summary, log }) {
    const may = session.may("mitras", "write");
    const again = () => this.refresh({ quietly: true });
    return [
      found.sums && sumTiles(found.sums),
      h("div", { class: "cards" }, this.#facts(mitra), summary && this.#summary(summary)),
      ...lists(mitra.id, found, { isMitra: true }),
      devices(this.#path, found.devices, { may, name: mitra.display_name, again }),
      log && h("h2", {}, t("Latest requests")),
      log &&
        (log.items.length
          ? this.#log(log.items)
          : h("p", { class: "card empty" }, t("This mitra has not been invited yet."))),
      log?.next_cursor &&
        h("a", { href: address("/activity/log", { mitra_id: mitra.id }) }, t("All requests of this mitra")),
    ];
  }

  #facts(mitra) {
    return h(
      "section",
      { class: "card" },
      facts([
        [t("State"), state(mitra)],
        mitra.erased_at ? [t("Erased"), time(mitra.erased_at)] : [t("Phone"), mitra.phone],
        [t("Chats now"), number(mitra.active_session_count)],
        [t("Last seen"), age(mitra.last_heartbeat_at)],
        mitra.reachable_at && [t("Answered a presence check"), age(mitra.reachable_at)],
        [t("Since"), time(mitra.created_at)],
        [t("Id"), h("span", { class: "id" }, mitra.id)],
      ]),
      session.may("mitras", "write") && !mitra.erased_at && this.#acts(mitra),
    );
  }

  #acts(mitra) {
    const button = (words, act, look) => h("button", { type: "button", class: look, onclick: () => act(mitra) }, words);
    return h(
      "div",
      { class: "row" },
      button(t("Edit…"), (who) => this.#edit(who)),
      mitra.is_active
        ? button(t("Deactivate…"), (who) => this.#switch(who), "danger")
        : button(t("Activate"), (who) => this.#switch(who)),
      mitra.is_online && button(t("Take offline…"), (who) => this.#offline(who), "danger"),
      session.may("customers.pii") && button(t("Export…"), (who) => this.#export(who)),
      !mitra.is_active && button(t("Erase…"), (who) => this.#erase(who), "danger"),
    );
  }

  #summary(one) {
    return h(
      "section",
      { class: "card" },
      h("h2", {}, t("Last 30 days")),
      facts([
        [t("Acceptance"), percent(one.acceptance_rate)],
        [t("Invited"), number(one.notified)],
        [t("Accepted"), number(one.accepted)],
        [t("Rejected"), number(one.rejected)],
        [t("No answer"), number(one.ignored)],
        [t("Another accepted"), number(one.missed)],
        [t("Sessions"), number(one.sessions)],
        [t("Sensitive"), number(one.sensitive_sessions)],
        [t("Online"), duration(one.online_seconds)],
        ...fairness().map(([label, text]) => [label, text(one)]),
      ]),
    );
  }

  #log(items) {
    return table(t("Latest requests"), [asked(), ...outcome()], items);
  }

  async #edit(mitra) {
    const changed = await ask({
      title: t("Edit {name}", { name: mitra.display_name }),
      content: fields(mitra),
      submit: t("Save"),
      send: (data) =>
        saveChanges(this.#path, mitra, {
          phone: data.get("phone").trim(),
          display_name: data.get("display_name").trim(),
        }),
    });
    if (changed) toast(t("Saved."));
    await this.refresh({ quietly: true });
  }

  async #switch(mitra) {
    const change = () => api.patch(this.#path, { is_active: !mitra.is_active });
    const title = mitra.is_active
      ? t("Deactivate {name}?", { name: mitra.display_name })
      : t("Activate {name}?", { name: mitra.display_name });
    const said = mitra.is_active
      ? t("The mitra goes offline, is signed out, and their open requests end. Running chats continue.")
      : t("The mitra can sign in and go online.");
    const done = await confirm(title, said, mitra.is_active ? t("Deactivate") : t("Activate"), change, mitra.is_active);
    if (done) toast(t("Saved."));
    await this.refresh({ quietly: true });
  }

  async #offline(mitra) {
    const said = t("The mitra gets no requests until they go online again. Running chats continue.");
    const act = () => api.post(`${this.#path}/force-offline`);
    const done = await confirm(t("Take {name} offline?", { name: mitra.display_name }), said, t("Take offline"), act);
    if (done) toast(t("{name} is offline.", { name: mitra.display_name }));
    await this.refresh({ quietly: true });
  }

  async #export(mitra) {
    const said = t(
      "The file has everything that is stored of this mitra, with what they wrote, and nothing about their customers. It is for the mitra: send it over a channel that you trust, then delete it. Your name is recorded.",
    );
    if (await exportData(this.#path, mitra, said)) toast(t("The file is saved."));
  }

  async #erase(mitra) {
    const said = t(
      "Name, phone, devices and codes are erased. What the mitra wrote belongs to their customers' conversations and stays. This can't be undone.",
    );
    if (await eraseData(this.#path, mitra, said)) toast(t("{name} is erased.", { name: mitra.display_name }));
    await this.refresh({ quietly: true });
  }
}

customElements.define("mitras-page", MitrasPage);
customElements.define("mitra-page", MitraPage);
