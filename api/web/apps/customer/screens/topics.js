/** The topic picker: twelve chips, any number of them. */

import { actionButton } from "/try/kit/buttons.js";
import { icon } from "/try/kit/icons.js";
import { backLink } from "/try/kit/links.js";
import { languageButton } from "/try/kit/looks.js";
import { topBar } from "/try/kit/shell.js";
import { topics } from "/try/kit/topics.js";
import { h } from "/try/shared/dom.js";
import { go } from "/try/shared/router.js";
import { t } from "/try/shared/words.js";

export function topicsScreen({ app, client }) {
  const { draft } = app;
  const signedIn = client.state.user !== null;
  const chips = Object.entries(topics()).map(([topic, name]) =>
    h(
      "label",
      { class: "pick chip-pick" },
      h("input", {
        type: "checkbox",
        name: "topic",
        value: topic,
        checked: draft.choices.topics.includes(topic),
        onchange: ({ target }) =>
          draft.set({
            topics: target.checked
              ? [...draft.choices.topics, topic]
              : draft.choices.topics.filter((other) => other !== topic),
          }),
      }),
      icon("sent"),
      h("span", {}, name),
    ),
  );
  const next = actionButton(
    t("Continue"),
    async () => {
      await draft.set({ starting: true });
      go(signedIn ? "/prices" : "/sign-in");
    },
    { kind: "primary" },
  );
  return {
    title: t("What is on your mind?"),
    content: h(
      "div",
      { class: "screen" },
      topBar(
        t("What is on your mind?"),
        signedIn ? backLink("#/") : null,
        signedIn ? null : languageButton(app.refresh),
      ),
      h("p", { class: "lead" }, t("Choose as many as you like, or none. Your mitra sees them.")),
      h("fieldset", { class: "chips grow" }, h("legend", { class: "hidden-label" }, t("Topics")), chips),
      h(
        "div",
        { class: "stack-buttons" },
        next,
        signedIn ? null : h("a", { class: "button quiet", href: "#/sign-in" }, t("I have an account")),
      ),
    ),
  };
}
