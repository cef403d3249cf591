/** The newest phone codes of the development inbox, each with a button that copies it. */

import { h } from "./shared/dom.js";
import { toast } from "./shared/toast.js";
import { t } from "./shared/words.js";

const EVERY_MS = 1_000;
const SHOWN = 3;

/** Make a button that copies a code; none where the browser can't (on plain http from another machine). */
export function copyButton(code) {
  if (!navigator.clipboard) return null;
  const copy = async () => {
    await navigator.clipboard.writeText(code);
    toast(t("Copied {code}", { code }));
  };
  return h(
    "button",
    { type: "button", class: "small", "aria-label": t("Copy {code}", { code }), onclick: copy },
    t("Copy"),
  );
}

const row = ({ to, data, text }) => {
  const code = data?.code ?? text.match(/\d{6}/)?.[0] ?? text;
  return h("li", {}, h("span", { class: "quiet" }, to), h("code", { class: "code" }, code), copyButton(code));
};

/** Read the newest messages; null if the service refuses. Rejects if the answer breaks off or `ended` aborts. */
async function inbox(ended) {
  const response = await fetch("/dev/inbox.json", { signal: ended });
  return response.ok ? (await response.json()).items : null;
}

/** Make the list. It is read each second while the page is visible, until `ended`. */
export function codes(ended) {
  const list = h("ul", { "aria-label": t("Newest codes"), "aria-live": "polite" });
  const empty = h("p", { class: "quiet" }, t("Codes that the service sends appear here."));
  let newest = null;
  const read = async () => {
    if (document.hidden) return;
    const items = await inbox(ended).catch(() => null);
    if (!items) return; // the next second reads again
    const sent = items.filter((item) => item.kind === "code");
    const newestOfNumber = sent.filter((item) => sent.find((one) => one.to === item.to) === item);
    const found = newestOfNumber.slice(0, SHOWN);
    const seen = JSON.stringify(found);
    if (seen === newest) return;
    newest = seen;
    list.replaceChildren(...found.map(row));
    empty.hidden = found.length > 0;
  };
  const timer = setInterval(read, EVERY_MS);
  ended.addEventListener("abort", () => clearInterval(timer));
  read();
  return h("section", { class: "codes-strip", "aria-label": t("Newest codes") }, h("h2", {}, t("Codes")), empty, list);
}
