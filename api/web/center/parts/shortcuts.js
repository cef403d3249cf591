/**
 * Keys that press buttons of a page. They do nothing in inputs and dialogs, and can be switched off, because a speech
 * recogniser may type letters (WCAG 2.1.4).
 */

import { ask } from "../shared/dialog.js";
import { h } from "../shared/dom.js";
import { preferences } from "../shared/preferences.js";
import { t } from "../shared/words.js";

const TYPING = "input, select, textarea, [contenteditable], dialog";

/** Add a key to a button or link: its hint, and the attribute by which assistive technology names it. */
export function keyed(key, element) {
  element.dataset.key = key.toLowerCase();
  element.setAttribute("aria-keyshortcuts", key);
  element.append(" ", h("kbd", { "aria-hidden": "true" }, key));
  return element;
}

/** Whether a key is pressed for the page: alone, outside of inputs and dialogs, with the keys switched on. */
export function isForPage({ target, ctrlKey, metaKey, altKey, repeat, defaultPrevented }) {
  if (!preferences.shortcuts || ctrlKey || metaKey || altKey || repeat || defaultPrevented) return false;
  return !target.closest?.(TYPING) && !document.querySelector("dialog[open]");
}

/** Press the visible element of `root` that has the key of an event, while `signal` has not aborted. */
export function followKeys(root, signal) {
  const press = (event) => {
    if (!isForPage(event)) return;
    const key = event.key.toLowerCase();
    const found = [...root.querySelectorAll("[data-key]")].find((one) => one.dataset.key === key);
    if (!found) return;
    event.preventDefault();
    found.focus();
    found.click();
  };
  document.addEventListener("keydown", press, { signal });
}

/** A button, with the key "?", that lists the keys of `root`. */
export function keyHelp(root) {
  const show = () => {
    const line = (one) => [
      h("dt", {}, h("kbd", {}, one.getAttribute("aria-keyshortcuts"))),
      h(
        "dd",
        {},
        [...one.childNodes].filter((part) => part.nodeName !== "KBD").map((part) => part.textContent),
      ),
    ];
    return ask({
      title: t("Keys"),
      content: h("dl", { class: "facts keys" }, [...root.querySelectorAll("[data-key]")].map(line)),
      submit: t("Done"),
      cancel: false,
      send: () => true,
    });
  };
  return keyed("?", h("button", { type: "button", class: "plain", onclick: show }, t("Keys")));
}

/** The switch for all keys of this browser. */
export const keySwitch = () =>
  h(
    "label",
    { class: "hint" },
    h("input", {
      type: "checkbox",
      name: "shortcuts",
      checked: preferences.shortcuts,
      onchange: (event) => preferences.set({ shortcuts: event.currentTarget.checked }),
    }),
    " ",
    t("Use the keys shown on the buttons"),
  );
