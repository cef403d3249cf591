/** Theme and language of this browser, kept in localStorage because they are not secret. */

const KEY = "sesi.preferences";

function read() {
  try {
    return JSON.parse(localStorage.getItem(KEY)) ?? {};
  } catch {
    return {};
  }
}

export const preferences = {
  /** "en" or "id"; the browser's language until the operator chooses one. */
  get language() {
    return read().language ?? (navigator.language.toLowerCase().startsWith("id") ? "id" : "en");
  },
  /** "system", "light" or "dark". */
  get theme() {
    return read().theme ?? "system";
  },
  set(changes) {
    localStorage.setItem(KEY, JSON.stringify({ ...read(), ...changes }));
    this.apply();
  },
  apply() {
    const root = document.documentElement;
    root.lang = this.language;
    if (this.theme === "system") delete root.dataset.theme;
    else root.dataset.theme = this.theme;
  },
};
