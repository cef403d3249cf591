/**
 * Addresses of pages, such as `#/payments/<id>?status=pending`. They come after `#`, because paths such as
 * `/internal/payments` are routes of the service. Filters are in the address, so that links, reloads and the back
 * button keep them.
 */

const routes = [];

/**
 * Register a page: `route("/payments/:id", "payment-page", "payments")`. `area` is the permission needed to read it.
 */
export function route(pattern, tag, area) {
  routes.push({ parts: pattern.split("/").slice(1), tag, area });
}

/** Return the present address: its path and its query. */
export function here() {
  const [path, query] = (location.hash.replace(/^#/, "") || "/").split("?", 2);
  return { path, query: new URLSearchParams(query) };
}

/** Return the page of a path, or null. */
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

/** Return the address of a page. Empty query values are left out. */
export function address(path, query = {}) {
  const filled = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  return `#${path}${filled.length ? `?${new URLSearchParams(filled)}` : ""}`;
}

/** Go to a page. `replace`: replace the present history entry, so that the back button skips it. */
export function go(path, query = {}, { replace = false } = {}) {
  if (replace) location.replace(address(path, query));
  else if (location.hash === address(path, query))
    dispatchEvent(new Event("hashchange")); // the same address: read the page again
  else location.hash = address(path, query);
}
