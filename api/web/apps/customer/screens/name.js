/** The screen that asks for a name: mitras must know how to address a customer. */

import { actionButton } from "/try/kit/buttons.js";
import { scene } from "/try/kit/scenes.js";
import { topBar } from "/try/kit/shell.js";
import { freshId, h } from "/try/shared/dom.js";
import { t } from "/try/shared/words.js";

const MAX_CHARACTERS = 100;

/** Make the form; `done()` is called after the name was stored. */
export function nameForm(client, label, done) {
  const id = freshId();
  const input = h("input", {
    id,
    name: "display_name",
    autocomplete: "nickname",
    maxlength: MAX_CHARACTERS,
    required: true,
    value: client.state.user?.display_name ?? "",
  });
  const save = actionButton(
    label,
    async () => {
      if (input.value.trim() === "") return input.focus();
      await client.setDisplayName(input.value.trim());
      done();
    },
    { kind: "primary", type: "submit" },
  );
  return h(
    "form",
    { class: "stack", novalidate: true, onsubmit: (event) => event.preventDefault() },
    h("div", { class: "field" }, h("label", { for: id }, t("Your name")), input),
    save,
  );
}

export const nameScreen = ({ app, client }) => ({
  title: t("What should we call you?"),
  content: h(
    "div",
    { class: "screen" },
    h("div", { class: "centered stack" }, scene("sun")),
    topBar(t("What should we call you?")),
    h("p", { class: "lead" }, t("A nickname is fine. It is all that your mitra sees of you.")),
    nameForm(client, t("Continue"), () => app.refresh()),
  ),
});
