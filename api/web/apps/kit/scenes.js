/** Small pictures. They are decoration. */

import { svg } from "/try/shared/dom.js";

const shape = (tag, className, more) => svg(tag, { class: className, ...more });
const path = (className, d) => shape("path", className, { d });
const circle = (className, cx, cy, r) => shape("circle", className, { cx, cy, r });

const SCENES = {
  logo: () => [
    path(
      "fill-accent",
      "M46 52a18 18 0 0 1 18-18h32a18 18 0 0 1 18 18v26a18 18 0 0 1-18 18H82l-22 20V96a18 18 0 0 1-14-18z",
    ),
    path("fill-soft", "M80 86s-17-10-17-21.5a9.6 9.6 0 0 1 17-5.5 9.6 9.6 0 0 1 17 5.5C97 76 80 86 80 86z"),
  ],
  listen: () => [
    circle("fill-soft", 80, 70, 56),
    path(
      "fill-card",
      "M34 50a12 12 0 0 1 12-12h42a12 12 0 0 1 12 12v20a12 12 0 0 1-12 12H64l-16 13V82a12 12 0 0 1-14-12z",
    ),
    path("line-accent", "M48 53h38M48 66h24"),
    path(
      "fill-accent",
      "M84 78a11 11 0 0 1 11-11h24a11 11 0 0 1 11 11v15a11 11 0 0 1-11 11v10l-12-10H95a11 11 0 0 1-11-11z",
    ),
    path("fill-card", "M107 98s-9-5.5-9-11.5a5 5 0 0 1 9-3 5 5 0 0 1 9 3c0 6-9 11.5-9 11.5z"),
  ],
  private: () => [
    circle("fill-soft", 80, 70, 56),
    path("line-accent thick", "M62 66V54a18 18 0 0 1 36 0v12"),
    path("fill-accent", "M54 64h52a8 8 0 0 1 8 8v30a8 8 0 0 1-8 8H54a8 8 0 0 1-8-8V72a8 8 0 0 1 8-8z"),
    path("fill-card", "M80 100s-11-6.5-11-14a6 6 0 0 1 11-3.5 6 6 0 0 1 11 3.5c0 7.5-11 14-11 14z"),
  ],
  time: () => [
    circle("fill-soft", 80, 70, 56),
    circle("fill-card", 80, 72, 36),
    path("line-accent thick", "M80 50v22l15 10"),
    circle("fill-accent", 118, 38, 12),
    path("line-card", "M112 38l4 4 8-8"),
  ],
  sun: () => [
    circle("fill-soft", 80, 70, 56),
    circle("fill-accent", 80, 70, 22),
    path("line-accent thick", "M80 30v8M80 102v8M40 70h8M112 70h8M52 42l5 5M103 93l5 5M108 42l-5 5M57 93l-5 5"),
  ],
  moon: () => [
    circle("fill-soft", 80, 70, 56),
    path("fill-accent", "M98 92a32 32 0 1 1-8-54 26 26 0 0 0 8 54z"),
    circle("fill-card", 108, 50, 3),
    circle("fill-card", 116, 68, 2),
    circle("fill-card", 100, 62, 2),
  ],
  cloud: () => [
    circle("fill-soft", 80, 70, 56),
    path("fill-card", "M54 92a17 17 0 0 1 0-34 24 24 0 0 1 46-6 20 20 0 0 1 4 40z"),
    path("line-accent", "M72 72h.01M90 72h.01M73 84q8-6 16 0"),
  ],
  cup: () => [
    circle("fill-soft", 80, 70, 56),
    path("fill-accent", "M50 62h50v22a20 20 0 0 1-20 20H70a20 20 0 0 1-20-20z"),
    path("line-accent thick", "M100 68h5a10 10 0 0 1 0 20h-5"),
    path("line-accent", "M64 52c-4-6 4-8 0-14M77 52c-4-6 4-8 0-14M90 52c-4-6 4-8 0-14"),
  ],
};

/** Make a picture: logo, listen, private, time, sun, moon, cloud or cup. */
export const scene = (name) =>
  svg("svg", { class: "scene", viewBox: "0 0 160 140", "aria-hidden": "true" }, SCENES[name]());
