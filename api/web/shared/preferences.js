/** Theme, language and shortcuts of this browser, kept in localStorage because they are not secret. */

let key = "sesi.preferences";
let ofPage = {}; // by the address of the page, or because storage failed; these win

function stored() {
  try {
    return JSON.parse(localStorage.getItem(key)) ?? {};
  } catch {
    return {};
  }
}

const read = () => ({ ...stored(), ...ofPage });

export const preferences = {
  /**
   * Keep the preferences under another key. `language` and `theme`, if given, win until the reader chooses.
   * @param {string} newKey
   * @param {{ language?: string | null, theme?: string | null }} [given]
   */
  keepAt(newKey, { language, theme } = {}) {
    key = newKey;
    ofPage = { ...(language && { language }), ...(theme && { theme }) };
  },
  /** "en" or "id"; the browser's language until the reader chooses one. */
  get language() {
    return read().language ?? (navigator.language.toLowerCase().startsWith("id") ? "id" : "en");
  },
  /** "system", "light" or "dark". */
  get theme() {
    return read().theme ?? "system";
  },
  /** Whether single keys press buttons. */
  get shortcuts() {
    return read().shortcuts ?? true;
  },
  set(changes) {
    try {
      localStorage.setItem(key, JSON.stringify({ ...stored(), ...changes }));
      for (const name of Object.keys(changes)) delete ofPage[name];
    } catch {
      Object.assign(ofPage, changes); // without storage the choice lasts as long as the page
    }
    this.apply();
  },
  apply() {
    const root = document.documentElement;
    root.lang = this.language;
    if (this.theme === "system") delete root.dataset.theme;
    else root.dataset.theme = this.theme;
  },
};
