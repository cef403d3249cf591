/** The switches of language and theme. */

import { h } from "/try/shared/dom.js";
import { preferences } from "/try/shared/preferences.js";
import { t } from "/try/shared/words.js";

function choice(legend, name, options, chosen, choose) {
  return h(
    "fieldset",
    { class: "choice" },
    h("legend", {}, legend),
    h(
      "div",
      { class: "segments" },
      options.map(([value, label]) =>
        h(
          "label",
          { class: "segment" },
          h("input", { type: "radio", name, value, checked: value === chosen, onchange: () => choose(value) }),
          h("span", {}, label),
        ),
      ),
    ),
  );
}

/** Make both switches. `changed()` is called after a choice: the app shows its screen in the new language. */
export const looks = (changed) =>
  h(
    "div",
    { class: "looks" },
    choice(
      t("Language"),
      "language",
      [
        ["id", "Indonesia"],
        ["en", "English"],
      ],
      preferences.language,
      (language) => {
        preferences.set({ language });
        changed();
      },
    ),
    choice(
      t("Appearance"),
      "theme",
      [
        ["system", t("Automatic")],
        ["light", t("Light")],
        ["dark", t("Dark")],
      ],
      preferences.theme,
      (theme) => preferences.set({ theme }),
    ),
  );

/** Make the small button that shows the other language. */
export function languageButton(changed) {
  const other = preferences.language === "id" ? "en" : "id";
  return h(
    "button",
    {
      type: "button",
      class: "language-button",
      lang: other,
      "aria-label": other === "en" ? "English" : "Bahasa Indonesia",
      onclick() {
        preferences.set({ language: other });
        changed();
      },
    },
    other.toUpperCase(),
  );
}
