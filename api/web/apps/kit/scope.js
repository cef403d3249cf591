/** The lifetime of a screen or a sheet: its timers, listeners and subscriptions end together. */

export class Scope {
  #cleanups = [];
  #ended = false;

  /** @param {import("/client/index.js").Client} client */
  constructor(client) {
    this.client = client;
  }

  get ended() {
    return this.#ended;
  }

  /** Call `cleanup` when the scope ends, at once if it has ended. Returns `cleanup`. */
  add(cleanup) {
    if (this.#ended) cleanup();
    else this.#cleanups.push(cleanup);
    return cleanup;
  }

  /** Call `show(state)` now and after each change of the client's state. */
  watch(show) {
    this.add(this.client.subscribe(show));
    show(this.client.state);
  }

  /** Call `listener(frame)` for each event that the client receives. */
  events(listener) {
    this.add(this.client.on(listener));
  }

  /** Call `act` now and every `ms` milliseconds of real time. Only while the page is visible, if `visible`. */
  every(ms, act, { visible = false } = {}) {
    const run = () => (!visible || document.visibilityState === "visible") && act();
    const timer = setInterval(run, ms);
    this.add(() => clearInterval(timer));
    run();
  }

  /** Listen to a DOM event. */
  listen(target, type, listener, options) {
    target.addEventListener(type, listener, options);
    this.add(() => target.removeEventListener(type, listener, options));
  }

  /** Return a scope that ends with this one. */
  child() {
    const inner = new Scope(this.client);
    this.add(() => inner.end());
    return inner;
  }

  end() {
    if (this.#ended) return;
    this.#ended = true;
    for (const cleanup of this.#cleanups.splice(0).reverse()) cleanup();
  }
}
