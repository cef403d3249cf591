/** Line icons. They are decoration: the element around them has the name. */

import { svg } from "/try/shared/dom.js";

const PATHS = {
  back: ["M15 5l-7 7 7 7"],
  close: ["M6 6l12 12", "M18 6L6 18"],
  send: ["M5 12h13", "M12 5l7 7-7 7"],
  next: ["M9 5l7 7-7 7"],
  down: ["M12 5v14", "M5 12l7 7 7-7"],
  phone: ["M6 3h4l1.5 5-2.5 1.5a11 11 0 0 0 5.5 5.5l1.5-2.5 5 1.5v4a2 2 0 0 1-2 2A16 16 0 0 1 4 5a2 2 0 0 1 2-2z"],
  chat: ["M5 5h14a2 2 0 0 1 2 2v8a2 2 0 0 1-2 2h-7l-5 4v-4H5a2 2 0 0 1-2-2V7a2 2 0 0 1 2-2z"],
  person: ["M12 12a4 4 0 1 0 0-8 4 4 0 0 0 0 8z", "M4 21a8 8 0 0 1 16 0"],
  people: [
    "M9 11a3.5 3.5 0 1 0 0-7 3.5 3.5 0 0 0 0 7z",
    "M2 20a7 7 0 0 1 14 0",
    "M16 4.3a3.5 3.5 0 0 1 0 6.4",
    "M18.5 14.5A7 7 0 0 1 22 20",
  ],
  heart: ["M12 20s-8-4.6-8-10.5A4.5 4.5 0 0 1 12 7a4.5 4.5 0 0 1 8 2.5C20 15.4 12 20 12 20z"],
  lock: ["M6 11h12a1 1 0 0 1 1 1v8a1 1 0 0 1-1 1H6a1 1 0 0 1-1-1v-8a1 1 0 0 1 1-1z", "M8 11V8a4 4 0 0 1 8 0v3"],
  clock: ["M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18z", "M12 7v5l3 2"],
  help: ["M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18z", "M9.5 9.5a2.5 2.5 0 1 1 3.5 2.3c-.7.3-1 .8-1 1.7", "M12 17h.01"],
  wallet: ["M4 7h15a1 1 0 0 1 1 1v10a1 1 0 0 1-1 1H5a2 2 0 0 1-2-2V6a2 2 0 0 1 2-2h11v3", "M16 13h.01"],
  device: ["M8 3h8a1 1 0 0 1 1 1v16a1 1 0 0 1-1 1H8a1 1 0 0 1-1-1V4a1 1 0 0 1 1-1z", "M11 18h2"],
  sending: ["M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18z", "M12 8v4"],
  sent: ["M5 13l4 4L19 7"],
  delivered: ["M2 13l4 4L16 7", "M11 16l1 1L22 7"],
  read: ["M2 13l4 4L16 7", "M11 16l1 1L22 7"],
  refused: ["M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18z", "M12 7v6", "M12 16h.01"],
  leave: ["M10 4H6a2 2 0 0 0-2 2v12a2 2 0 0 0 2 2h4", "M15 8l4 4-4 4", "M19 12H9"],
  more: ["M12 6h.01", "M12 12h.01", "M12 18h.01"],
  report: ["M5 21V4", "M5 5h13l-3 4 3 4H5"],
  block: ["M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18z", "M5.7 5.7l12.6 12.6"],
  plus: ["M12 5v14", "M5 12h14"],
};

/** Make an icon of the list above. */
export const icon = (name, className = "") =>
  svg(
    "svg",
    { class: `icon ${className}`, viewBox: "0 0 24 24", "aria-hidden": "true", focusable: "false" },
    PATHS[name].map((d) => svg("path", { d })),
  );
