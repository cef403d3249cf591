/** What the customer has chosen before a payment request exists. It survives a reload and the sign-in. */

const EMPTY = { introSeen: false, starting: false, topics: [], mode: "chat", mitra: null };

export class Draft {
  #storage;

  /** @param {import("/client/index.js").StoragePort} storage */
  constructor(storage) {
    this.#storage = storage;
    this.choices = { ...EMPTY };
  }

  /** Read what is stored. Unreadable content counts as none. */
  async load() {
    try {
      this.choices = { ...EMPTY, ...JSON.parse((await this.#storage.get("draft")) ?? "{}") };
    } catch {
      this.choices = { ...EMPTY };
    }
  }

  /** Change some choices: `introSeen`, `starting`, `topics`, `mode`, `mitra` ({ id, display_name } or null). */
  set(changes) {
    this.choices = { ...this.choices, ...changes };
    return this.#storage.set("draft", JSON.stringify(this.choices));
  }

  /** Forget the choices for the next session; the intro stays seen. */
  reset() {
    return this.set({ ...EMPTY, introSeen: this.choices.introSeen });
  }
}
