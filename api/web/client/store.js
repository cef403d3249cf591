/** An observable value. Listeners are called once a microtask, however many changes there were. */
export class Store {
  /** @type {Set<(state: import("./types.d.ts").State) => void>} */
  #listeners = new Set();
  #due = false;

  /** @param {import("./types.d.ts").State} state */
  constructor(state) {
    this.state = Object.freeze(state);
  }

  /** @param {Partial<import("./types.d.ts").State>} patch */
  update(patch) {
    this.state = Object.freeze({ ...this.state, ...patch });
    if (this.#due) return;
    this.#due = true;
    queueMicrotask(() => {
      this.#due = false;
      // In separate microtasks, so that an error of one listener does not hide the change from the others.
      for (const listener of this.#listeners) queueMicrotask(() => listener(this.state));
    });
  }

  /** @param {(state: import("./types.d.ts").State) => void} listener */
  subscribe(listener) {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }
}
