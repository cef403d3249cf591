/**
 * The operator who is signed in, in this tab. Tokens are in sessionStorage: they are never in the address, and end with the tab. A
 * duplicated tab has the same tokens; the tab that renews them sends them to the other.
 */

const KEY = "sesi.tokens";
const RANK = { read: 1, write: 2 };
const tabs = new BroadcastChannel("sesi.tokens");

export const session = {
  /** The operator, once known: id, email, display_name, role, permissions, and their second factor. */
  operator: null,

  get tokens() {
    return JSON.parse(sessionStorage.getItem(KEY));
  },

  /** Store the answer of a sign-in or a renewal. */
  keep({ access_token, refresh_token, operator }) {
    const before = this.tokens;
    sessionStorage.setItem(KEY, JSON.stringify({ access: access_token, refresh: refresh_token }));
    this.operator = operator;
    if (before) tabs.postMessage({ before: before.refresh, access: access_token, refresh: refresh_token });
  },

  /** Whether the operator must set up a second factor before anything else. */
  get mustEnrol() {
    const { totp_required, totp_enabled } = this.operator ?? {};
    return Boolean(totp_required && !totp_enabled);
  },

  /** Whether the operator must replace the password that another person chose, before anything else. */
  get mustChangePassword() {
    return Boolean(this.operator?.password_change_due);
  },

  /** Whether the operator may see nothing but their own account. */
  get confined() {
    return this.mustChangePassword || this.mustEnrol;
  },

  forget() {
    sessionStorage.removeItem(KEY);
    this.operator = null;
  },

  /** Whether the operator may read or write an area, or one of several. The service enforces it; this only hides what it would refuse. */
  may(area, access = "read") {
    const permissions = this.operator?.permissions ?? {};
    const areas = [area, "*"].flat();
    return areas.some((one) => (RANK[permissions[one]] ?? 0) >= RANK[access]);
  },
};

tabs.addEventListener("message", ({ data }) => {
  if (session.tokens?.refresh === data.before) {
    sessionStorage.setItem(KEY, JSON.stringify({ access: data.access, refresh: data.refresh }));
  }
});
