/** The introduction: three cards, shown once. */

import { actionButton } from "/try/kit/buttons.js";
import { languageButton } from "/try/kit/looks.js";
import { scene } from "/try/kit/scenes.js";
import { h } from "/try/shared/dom.js";
import { t } from "/try/shared/words.js";

const CARDS = () => [
  [
    "listen",
    t("Someone is here for you"),
    t("Write with a trained listener, a mitra, about whatever is on your mind."),
  ],
  ["private", t("Only you two"), t("Your mitra sees the name that you choose, and nothing else about you.")],
  [
    "time",
    t("Your time, your price"),
    t("Choose how many minutes you want, and pay for these. You can add more while you talk."),
  ],
];

let step = 0; // kept when the language changes

export function introScreen({ app, client }) {
  const cards = CARDS();
  const place = h("div", { class: "grow stack centered intro-card" });
  const dots = h(
    "div",
    { class: "dots", "aria-hidden": "true" },
    cards.map(() => h("span", {})),
  );
  const next = actionButton("", () => (step === cards.length - 1 ? finish() : show(step + 1)), { kind: "primary" });
  const skip = actionButton(t("Skip"), () => finish(), { kind: "quiet" });

  async function finish() {
    await app.draft.set({ introSeen: true });
    if (client.state.user) await client.call("POST /api/client/usp-seen").catch(() => {}); // asked again after a sign-in
    step = 0;
    app.refresh();
  }

  function show(number, focus = true) {
    step = number;
    const [picture, title, text] = cards[step];
    const heading = h("h1", { tabindex: "-1" }, title);
    place.replaceChildren(scene(picture), heading, h("p", { class: "lead" }, text));
    for (const [n, dot] of [...dots.children].entries()) dot.classList.toggle("on", n === step);
    next.querySelector("span").textContent = step === cards.length - 1 ? t("Let's begin") : t("Next");
    skip.classList.toggle("unseen", step === cards.length - 1); // keeps its room, so that the button does not jump
    if (focus) heading.focus();
  }

  show(step, false);
  return {
    title: t("Welcome"),
    content: h(
      "div",
      { class: "screen" },
      h("header", { class: "top-bar" }, h("span", {}), h("span", {}), languageButton(app.refresh)),
      place,
      dots,
      h("div", { class: "stack-buttons" }, next, skip),
    ),
  };
}
