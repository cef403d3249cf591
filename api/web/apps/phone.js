/** A phone on the page: an app in a frame, with buttons to reload it, to open it alone, and to forget what it stores. */

import { browserStorage } from "/client/index.js";
import { copyButton } from "./codes.js";
import { confirm } from "./shared/dialog.js";
import { h } from "./shared/dom.js";
import { t } from "./shared/words.js";

const EMPTY_PAGE = "about:blank";

/** Remove what the app of a frame has stored, so that it starts as on a new phone. The app must not run. */
async function forget(prefix) {
  await browserStorage(prefix).clear();
  for (const key of Object.keys(localStorage).filter((one) => one.startsWith(prefix))) localStorage.removeItem(key);
}

const loaded = (frame, address) =>
  new Promise((resolve) => {
    frame.addEventListener("load", resolve, { once: true });
    frame.contentWindow.location.replace(address);
  });

function signInHint({ role, phone: number, code }) {
  if (role === "customer") return t("Use any number, or no account.");
  if (!number) return t("This mitra is not there yet: “make try” makes two.");
  return [number, " ", h("code", { class: "code" }, code), " ", copyButton(code)];
}

/** Make the phone. */
export function phone(one) {
  const { title, role, address, prefix } = one;
  const frame = h("iframe", { src: address, title });
  const start = () =>
    confirm(
      t("Forget this phone?"),
      t("The app starts as on a new phone. The service keeps everything."),
      t("Forget"),
      async () => {
        await loaded(frame, EMPTY_PAGE);
        await forget(prefix);
        await loaded(frame, address);
      },
    );
  return h(
    "section",
    { class: `phone ${role}`, "aria-label": [title, one.phone].filter(Boolean).join(", ") },
    h(
      "header",
      {},
      h("h2", {}, title),
      h(
        "div",
        { class: "tools" },
        h(
          "button",
          { type: "button", class: "small", onclick: () => frame.contentWindow.location.reload() },
          t("Reload"),
        ),
        h("a", { class: "button small", href: address, target: "_blank", rel: "noopener" }, t("Open alone")),
        h("button", { type: "button", class: "small", onclick: start }, t("Forget")),
      ),
    ),
    h("p", { class: "quiet hint" }, signInHint(one)),
    h("div", { class: "case" }, frame),
  );
}
