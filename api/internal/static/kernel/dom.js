/**
 * Elements by hand. Text only ever becomes a text node, so nothing that the service answers is read as HTML; the page's
 * policy (trusted types) forbids the other way altogether.
 */

const SVG = "http://www.w3.org/2000/svg";

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(
    ...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false),
  );
  return element;
}

/** Make an HTML element: `h("a", { href: "#/", onclick: f }, "text", child)`. Absent values leave an attribute out. */
export const h = (tag, properties, ...children) => fill(document.createElement(tag), properties, children);

/** Make an SVG element. */
export const svg = (tag, properties, ...children) => fill(document.createElementNS(SVG, tag), properties, children);

let made = 0;

/** An id that no other element of this page has. */
export const freshId = () => `e${++made}`;
