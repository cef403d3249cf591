/** QR codes, drawn in the browser, so that no other server gets their content. */

import { svg } from "../shared/dom.js";
import { encode } from "../vendor/uqr.js";

/**
 * Draw a QR code of a text. `label` is for screen readers. It is dark on light in every theme, because scanners need
 * that.
 */
export function qr(text, label) {
  const { data, size } = encode(text, { ecc: "M", border: 4 });
  const dark = data.flatMap((row, y) => row.flatMap((on, x) => (on ? [`M${x} ${y}h1v1h-1z`] : [])));
  return svg(
    "svg",
    { class: "qr", viewBox: `0 0 ${size} ${size}`, role: "img", "aria-label": label },
    svg("path", { d: dark.join("") }),
  );
}
