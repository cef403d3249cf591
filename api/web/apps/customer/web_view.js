/** Pages of others inside the app, such as a payment page: a sheet with a frame. */

import { openSheet } from "/try/kit/sheet.js";
import { h } from "/try/shared/dom.js";
import { t } from "/try/shared/words.js";

/**
 * Open a page in a sheet. `message(data, origin)` is called for each message that the page posts to this window. A page that may
 * not be shown in a frame can be opened in a tab by the link below it.
 */
export function openWebView(scope, { title, url, message, link = true }) {
  const frame = h("iframe", { src: url, title, allow: "payment", referrerpolicy: "no-referrer" });
  const listen = (event) => event.source === frame.contentWindow && message(event.data, event.origin);
  addEventListener("message", listen);
  const sheet = openSheet(scope, {
    title,
    wide: true,
    content: () =>
      h(
        "div",
        { class: "web-view" },
        frame,
        link && h("a", { class: "button quiet", href: url, target: "_blank", rel: "noopener" }, t("Open in a new tab")),
      ),
  });
  sheet.closed.then(() => removeEventListener("message", listen));
  return sheet;
}
