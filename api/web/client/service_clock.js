const DRIFT = 1e-4; // how much a device's monotonic clock may differ from the service's, per unit of time

/** The service's clock, measured by answers and kept by the device's monotonic clock, never by its calendar. */
export class ServiceClock {
  #time;
  /** @type {{ service: number, mono: number, width: number } | null} */
  #best = null;
  /** Service seconds in one real second, as the service says: 1 in production. */
  scale = 1;

  /** @param {import("./types.d.ts").TimePort} time */
  constructor(time) {
    this.#time = time;
  }

  /** Return the service's time in milliseconds since 1970. Before the first answer it is the device's. */
  now() {
    return this.#best ? this.#at(this.#time.mono(), this.#best) : this.#time.wall();
  }

  /**
   * Return the service's time in `ms` real milliseconds.
   * @param {number} ms
   */
  fromNow(ms) {
    return this.now() + ms * this.scale;
  }

  /**
   * Learn from an answer with the service's time, whose request left at `began` and which arrived at `ended`.
   * @param {string | null | undefined} serverTime
   * @param {number} began monotonic milliseconds
   * @param {number} ended monotonic milliseconds
   * @param {number} [scale] `time_scale` of the answer
   */
  learn(serverTime, began, ended, scale = this.scale) {
    const service = Date.parse(serverTime ?? "");
    if (Number.isNaN(service)) return;
    if (scale !== this.scale) this.#best = null;
    this.scale = scale;
    const sample = { service, mono: (began + ended) / 2, width: ended - began };
    const best = this.#best;
    if (best) {
      const slack = (best.width / 2 + (ended - best.mono) * DRIFT) * this.scale;
      // A monotonic clock may stop while the device sleeps: then the estimate does not fit the answer.
      const fits = this.#at(began, best) - slack <= service && service <= this.#at(ended, best) + slack;
      if (fits && sample.width > best.width + (ended - best.mono) * DRIFT) return;
    }
    this.#best = sample;
  }

  /**
   * Run `callback` when the service's clock reaches `time`. Return a function that cancels it.
   * @param {number} time milliseconds since 1970
   * @param {() => void} callback
   */
  after(time, callback) {
    /** @type {unknown} */
    let timer;
    const arm = () => {
      const left = (time - this.now()) / this.scale;
      if (left <= 0 && timer !== undefined) callback();
      // At most 10 s at a time, because the estimate of the clock may change.
      else timer = this.#time.after(Math.min(Math.max(left, 0), 10_000), arm);
    };
    arm();
    return () => this.#time.cancel(timer);
  }

  /**
   * @param {number} mono
   * @param {{ service: number, mono: number }} best
   */
  #at(mono, best) {
    return best.service + (mono - best.mono) * this.scale;
  }
}
