/**
 * Functions that make elements. Text always becomes a text node, so answers of the service are never parsed as HTML.
 * The page's policy (trusted types) forbids parsing text as HTML anyway.
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

/**
 * Make an HTML element: `h("a", { href: "#/", onclick: f }, "text", child)`. Attributes without a value are left out.
 */
export const h = (tag, properties, ...children) => fill(document.createElement(tag), properties, children);

/** Make an SVG element. */
export const svg = (tag, properties, ...children) => fill(document.createElementNS(SVG, tag), properties, children);

let made = 0;

/** Return an id that is unique on this page. */
export const freshId = () => `e${++made}`;
