/** The line at the top of an app: the state of the connection and of storage. It also has what is only spoken. */

import { h } from "/try/shared/dom.js";
import { t } from "/try/shared/words.js";

const PATIENCE_MS = 1_200; // shorter interruptions are not worth a word

const spoken = h("span", { class: "hidden-label" });

/** Let screen readers read a text, when they have finished with what they read now. */
export function announce(text) {
  spoken.textContent = "";
  requestAnimationFrame(() => {
    spoken.textContent = text;
  });
}

/** Make the line. It is empty while all is well, and before the sign-in. */
export function statusLine(scope) {
  const shown = h("span", { class: "status-text" });
  const line = h("div", { class: "status-line", role: "status" }, shown, spoken);
  let timer = null;
  let away = false;
  const show = (state) => {
    const texts = [];
    if (away && state.user) texts.push(t("Connecting…"));
    if (!state.saved) texts.push(t("Not saved on this device"));
    const text = texts.join(" · ");
    if (shown.textContent !== text) shown.textContent = text;
    line.classList.toggle("shown", text !== "");
  };
  scope.watch((state) => {
    if (state.connection === "open" || !state.user) {
      clearTimeout(timer);
      timer = null;
      away = false;
    } else if (timer === null) {
      timer = setTimeout(() => {
        away = true;
        show(scope.client.state);
      }, PATIENCE_MS);
    }
    show(state);
  });
  scope.add(() => clearTimeout(timer));
  return line;
}
