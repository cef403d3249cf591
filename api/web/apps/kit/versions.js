/** Versions of the apps. */

/** Return whether version text `a` is older than `b`: 1.9.0 is older than 1.10.0. */
export function isOlder(a, b) {
  const [left, right] = [a, b].map((text) => text.split(".").map(Number));
  const at = right.findIndex((part, n) => (left[n] ?? 0) !== part);
  return at >= 0 && (left[at] ?? 0) < right[at];
}

/** Return whether this version of a web app is too old for the service, by the answer of `config/app`. */
export function needsUpdate(version, config) {
  const minimum = config.minimum_versions?.web ?? null;
  return minimum !== null && isOlder(version, minimum);
}
