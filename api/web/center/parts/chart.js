/** `<sesi-chart>`: one bar for each value, with a text of the same values for screen readers. */

import { svg } from "../shared/dom.js";

const HEIGHT = 40;
const STEP = 10;

class Chart extends HTMLElement {
  /** `bars` are [{ label, value }], `name` is the chart's title, and `format` formats a value. */
  show(name, bars, format) {
    const top = Math.max(1, ...bars.map((bar) => bar.value));
    const drawn = bars.map((bar, n) => {
      const height = bar.value ? Math.max(2, (bar.value / top) * HEIGHT) : 1;
      const place = {
        x: n * STEP + 1,
        y: HEIGHT - height,
        width: STEP - 2,
        height,
        rx: 1,
        class: bar.value ? null : "none",
      };
      return svg("rect", place, svg("title", {}, `${bar.label}: ${format(bar.value)}`));
    });
    const box = {
      viewBox: `0 0 ${bars.length * STEP} ${HEIGHT}`,
      preserveAspectRatio: "none",
      role: "img",
      "aria-label": name,
    };
    this.replaceChildren(svg("svg", box, drawn));
  }
}

customElements.define("sesi-chart", Chart);
