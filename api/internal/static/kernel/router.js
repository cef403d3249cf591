/**
 * Addresses of pages: `#/payments/<id>?status=pending`. They are behind the `#` because `/internal/payments` and its like
 * are the service's own routes. Filters are in the address, so that links, reloads and the back button keep them.
 */

const routes = [];

/** Say which page an address shows: `route("/payments/:id", "payment-page", "payments")`; `area`: what it takes to see it. */
export function route(pattern, tag, area) {
  routes.push({ parts: pattern.split("/").slice(1), tag, area });
}

/** Where the operator is: the path and its query. */
export function here() {
  const [path, query] = (location.hash.replace(/^#/, "") || "/").split("?", 2);
  return { path, query: new URLSearchParams(query) };
}

/** Find the page of a path; null when there is none. */
export function match(path) {
  const parts = path.split("/").slice(1);
  for (const { parts: wanted, tag, area } of routes) {
    if (wanted.length !== parts.length) continue;
    if (!wanted.every((part, n) => (part.startsWith(":") ? parts[n] !== "" : part === parts[n]))) continue;
    const named = wanted.map((part, n) => [part.slice(1), parts[n]]).filter((_, n) => wanted[n].startsWith(":"));
    return { tag, area, params: Object.fromEntries(named) };
  }
  return null;
}

/** The address of a page; empty parts of the query are left out. */
export function address(path, query = {}) {
  const filled = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  return `#${path}${filled.length ? `?${new URLSearchParams(filled)}` : ""}`;
}

/** Go to a page. `replace`: the back button does not come back to this one. */
export function go(path, query = {}, { replace = false } = {}) {
  if (replace) location.replace(address(path, query));
  else if (location.hash === address(path, query))
    dispatchEvent(new Event("hashchange")); // the same again: look again
  else location.hash = address(path, query);
}
