/** The `$names` of a vector: ids that the vector does not fix (docs/clients.md#names). */

const USERS = { customer: "019aa4b6-5f00-7000-8000-00000000c001", mitra: "019aa4b6-5f00-7000-8000-00000000a001" };

/** What the client did is not what the vector says. */
export class Mismatch extends Error {}

const isName = (value) => typeof value === "string" && value.startsWith("$");
const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
const show = (value) => JSON.stringify(value) ?? "nothing";

export class Names {
  #values;

  /** `ordered`: names whose ids are made now, each larger than the one before. */
  constructor(role, ordered) {
    this.#values = new Map([
      ["$me", USERS[role]],
      ["$other", USERS[role === "customer" ? "mitra" : "customer"]],
    ]);
    for (const name of ordered) this.fill(name);
  }

  /** Replace the names in a value that the player serves; a name without a value gets a new id. */
  fill(value) {
    if (isName(value)) {
      if (!this.#values.has(value)) {
        this.#values.set(value, `019aa4b6-6000-7000-8000-${this.#values.size.toString(16).padStart(12, "0")}`);
      }
      return this.#values.get(value);
    }
    if (Array.isArray(value)) return value.map((item) => this.fill(item));
    if (!isObject(value)) return value;
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [this.fill(key), this.fill(item)]));
  }

  /**
   * Compare what the client did with what is wanted; a name without a value gets the client's. Throws Mismatch.
   * An object may have more fields than wanted, unless `whole` is true; a list must have as many items.
   */
  match(wanted, found, where, whole = false) {
    if (isName(wanted)) {
      if (!this.#values.has(wanted)) this.#values.set(wanted, found);
      this.match(this.#values.get(wanted), found, where, whole);
    } else if (isObject(wanted) && isObject(found)) {
      const filled = Object.fromEntries(Object.entries(wanted).map(([key, value]) => [this.fill(key), value]));
      const more = whole ? Object.keys(found).filter((key) => !(key in filled) && key !== "ref") : [];
      if (more.length) throw new Mismatch(`${where} also has ${more}`);
      for (const [key, value] of Object.entries(filled)) this.match(value, found[key], `${where}.${key}`, whole);
    } else if (Array.isArray(wanted) && Array.isArray(found) && wanted.length === found.length) {
      for (const [n, value] of wanted.entries()) this.match(value, found[n], `${where}[${n}]`, whole);
    } else if (wanted !== found) throw new Mismatch(`${where} is ${show(found)}, not ${show(wanted)}`);
  }

  /** Return whether each name among an object's fields has a value. */
  areKnown(value) {
    return Object.values(value).every((item) => !isName(item) || this.#values.has(item));
  }

  /** Return whether `match` would succeed; no name gets a value. */
  fits(wanted, found, whole = false) {
    const before = new Map(this.#values);
    try {
      this.match(wanted, found, "", whole);
      return true;
    } catch (error) {
      if (error instanceof Mismatch) return false;
      throw error;
    } finally {
      this.#values = before;
    }
  }
}
