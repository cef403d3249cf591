/**
 * `<figure-chart>`: bars with axes, each next to the one of a week before. It is drawn again when its width changes, so
 * that its texts keep their size. A table of the same values stands below it, so it is one image for screen readers.
 */

import { svg } from "../shared/dom.js";

const HEIGHT = 200;
const TOP = 8;
const BOTTOM = 22; // for the labels of the bars
const LEFT = 64; // for the values
const ROW = 40; // height of a group: its label and two bars
const LABEL = 64; // pixels that the label of a bar needs
const STEPS = [1, 2, 2.5, 5, 10];

/** Return the values of the axis, from 0 to one that is at least `most`. */
export function ticks(most) {
  const rough = Math.max(most, 1) / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = Math.max(1, power * (STEPS.find((one) => one * power >= rough) ?? 10));
  return [...Array(Math.ceil(Math.max(most, 1) / step) + 1).keys()].map((n) => n * step);
}

class FigureChart extends HTMLElement {
  /**
   * `bars` are [{ label, short, value, before, mark }]; `short` is the label on the axis, and `mark` words that a line at
   * the bar stands for. `format` formats a value, and `compact` one of the axis. `across`: the bars lie, one group below
   * the other. `every`: how many bars have one label; 1: as many labels as fit.
   */
  show(name, bars, { format, compact, across = false, every = 1 }) {
    Object.assign(this, { name, bars, format, compact, across, every });
    this.draw();
  }

  connectedCallback() {
    this.watch = new ResizeObserver(() => this.clientWidth !== this.drawn && this.draw());
    this.watch.observe(this);
  }

  disconnectedCallback() {
    this.watch.disconnect();
  }

  draw() {
    this.drawn = this.clientWidth;
    const width = Math.max(this.drawn, 200);
    const [height, parts] = this.across ? this.#lying(width) : this.#standing(width);
    const box = { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": this.name };
    this.replaceChildren(svg("svg", box, parts));
  }

  /** A bar with its title. */
  #bar(bar, which, place) {
    const words = `${bar.label}: ${this.format(bar[which])}`;
    return svg("rect", { ...place, rx: 1, class: which }, svg("title", {}, words));
  }

  #most() {
    return Math.max(0, ...this.bars.flatMap((bar) => [bar.value, bar.before]));
  }

  #standing(width) {
    const axis = ticks(this.#most());
    const tall = HEIGHT - TOP - BOTTOM;
    const y = (value) => TOP + tall - (value / axis.at(-1)) * tall;
    const slot = (width - LEFT) / Math.max(1, this.bars.length);
    const every = this.every > 1 ? this.every : Math.ceil(LABEL / slot);
    const lines = axis.map((value) => [
      svg("line", { x1: LEFT, x2: width, y1: y(value), y2: y(value) }),
      svg("text", { x: LEFT - 8, y: y(value) + 4, class: "end" }, this.compact(value)),
    ]);
    const drawn = this.bars.map((bar, n) => {
      const x = LEFT + n * slot;
      const half = Math.max(1, slot * 0.4);
      const place = (which, at) => ({ x: at, y: y(bar[which]), width: half, height: tall + TOP - y(bar[which]) });
      return [
        this.#bar(bar, "before", place("before", x + slot * 0.1)),
        this.#bar(bar, "value", place("value", x + slot * 0.1 + half)),
        bar.mark && svg("line", { x1: x, x2: x, y1: TOP, y2: TOP + tall, class: "mark" }, svg("title", {}, bar.mark)),
        n % every === 0 && svg("text", { x: x + slot * 0.1, y: HEIGHT - 4 }, bar.short),
      ];
    });
    return [HEIGHT, [lines, drawn]];
  }

  #lying(width) {
    const axis = ticks(this.#most());
    const x = (value) => (value / axis.at(-1)) * (width - 2);
    const bottom = this.bars.length * ROW;
    const lines = axis.map((value, n) => [
      svg("line", { x1: x(value), x2: x(value), y1: 0, y2: bottom }),
      (n === 0 || n === axis.length - 1) &&
        svg("text", { x: x(value), y: bottom + 16, class: n ? "end" : null }, this.compact(value)),
    ]);
    const drawn = this.bars.map((bar, n) => {
      const y = n * ROW;
      return [
        svg("text", { x: 2, y: y + 14, class: "name" }, `${bar.label}: ${this.format(bar.value)}`),
        this.#bar(bar, "value", { x: 0, y: y + 19, width: x(bar.value), height: 8 }),
        this.#bar(bar, "before", { x: 0, y: y + 28, width: x(bar.before), height: 5 }),
      ];
    });
    return [bottom + BOTTOM, [lines, drawn]];
  }
}

customElements.define("figure-chart", FigureChart);
