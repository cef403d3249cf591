/** The frame of an app: the status line, and the screen that the address names. */

import { h } from "/try/shared/dom.js";
import { here, match } from "/try/shared/router.js";
import { t } from "/try/shared/words.js";
import { problemPlace } from "./buttons.js";
import { Scope } from "./scope.js";
import { statusLine } from "./status_line.js";

/**
 * Show screens by address. Register them with the shared router: `route("/chat/:id", chatScreen)`. A screen is a function
 * `({ scope, client, params, query, ...context }) => { title, content, className? }`.
 *
 * `gate(path)` may return a screen that must be shown whatever the address says (maintenance, sign-in), else null.
 */
export function createShell({ client, context = {}, gate = (_path) => null, missing }) {
  const root = h("div", { class: "app" });
  const main = h("main", { tabindex: "-1" });
  const appScope = new Scope(client);
  let scope = appScope.child();
  let shown = null;
  root.append(statusLine(appScope), main);
  document.body.replaceChildren(root, h("div", { class: "toasts", role: "log", "aria-label": t("Notices") }));

  function show() {
    const { path, query } = here();
    const found = match(path);
    const screen = gate(path) ?? found?.tag ?? missing;
    scope.end();
    scope = appScope.child();
    const made = screen({ ...context, client, scope, query, params: found?.params ?? {} });
    if (made === null || scope.ended) return; // the screen has gone on to another one
    const moved = shown !== null && shown !== screen;
    shown = screen;
    main.className = made.className ?? "";
    main.replaceChildren(problemPlace(), made.content);
    document.title = `${made.title} · Sesi`;
    scrollTo(0, 0);
    if (moved && !main.contains(document.activeElement)) (main.querySelector("h1[tabindex]") ?? main).focus();
  }

  addEventListener("hashchange", show);
  return { show, scope: appScope };
}

/** Make the top of a screen: a heading, and a link back. `end` comes at the right. */
export const topBar = (title, back = null, end = null) =>
  h("header", { class: "top-bar" }, back, h("h1", { tabindex: "-1" }, title), h("div", { class: "top-end" }, end));
