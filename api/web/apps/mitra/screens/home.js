/** The first screen: the desk on a phone, and a hint next to it on a wide screen. */

import { scene } from "/try/kit/scenes.js";
import { h } from "/try/shared/dom.js";
import { t } from "/try/shared/words.js";
import { desk, WIDE } from "../desk.js";

const hint = () =>
  h(
    "div",
    { class: "grow centered stack hint" },
    scene("cup"),
    h("h1", { tabindex: "-1" }, t("Your desk")),
    h("p", { class: "lead" }, t("Choose a chat at the left, or wait for a request.")),
  );

export const homeScreen = (context) => ({
  title: t("Desk"),
  isDesk: true,
  content: h("div", { class: "screen" }, WIDE.matches ? hint() : desk(context)),
});
