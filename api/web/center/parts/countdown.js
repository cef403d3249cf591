/** `<sesi-countdown>`: counts down from `seconds`, then dispatches a `done` event. */

import { countdown } from "../shared/format.js";

class Countdown extends HTMLElement {
  connectedCallback() {
    this.setAttribute("role", "timer");
    const end = performance.now() + Number(this.getAttribute("seconds")) * 1000;
    const tick = () => {
      const left = Math.max(0, Math.ceil((end - performance.now()) / 1000));
      this.textContent = countdown(left);
      if (left > 0) return;
      clearInterval(this.timer);
      this.dispatchEvent(new Event("done"));
    };
    this.timer = setInterval(tick, 250);
    tick();
  }

  disconnectedCallback() {
    clearInterval(this.timer);
  }
}

customElements.define("sesi-countdown", Countdown);
