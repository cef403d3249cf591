/**
 * The operator who is signed in, in this tab. Tokens are in sessionStorage: they are never in the address or on the disk, and end
 * with the last tab. A new tab asks the other tabs of this browser for their tokens. The tab that renews them sends them to the
 * others, and a sign-out ends all tabs with the same tokens.
 */

const KEY = "sesi.tokens";
const RANK = { read: 1, write: 2 };
const ANSWER_MS = 500; // other tabs answer within milliseconds, if there are any
const tabs = new BroadcastChannel("sesi.tokens");
const signals = new EventTarget();
let take = null; // what takes the answer of another tab, while this one asks for it

const store = ({ access, refresh }) => sessionStorage.setItem(KEY, JSON.stringify({ access, refresh }));

export const session = {
  /** The operator, once known: id, email, display_name, role, permissions, and their second factor. */
  operator: null,

  get tokens() {
    return JSON.parse(sessionStorage.getItem(KEY));
  },

  /** Store the answer of a sign-in or a renewal. */
  keep({ access_token, refresh_token, operator }) {
    const before = this.tokens;
    store({ access: access_token, refresh: refresh_token });
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

  /** Take over the tokens of another tab, if one has any. Resolves with whether this tab has tokens then. */
  async askOtherTabs() {
    await new Promise((resolve) => {
      take = (given) => resolve(store(given));
      tabs.postMessage({ wanted: true });
      setTimeout(resolve, ANSWER_MS);
    });
    take = null;
    return this.tokens !== null;
  },

  /** End the sign-in of this tab, and of the others with the same tokens. */
  end() {
    const { tokens } = this;
    forget();
    if (tokens) tabs.postMessage({ ended: tokens.refresh });
  },

  /** Whether the operator may read or write an area, or one of several. The service enforces it; this only hides what it would refuse. */
  may(area, access = "read") {
    const permissions = this.operator?.permissions ?? {};
    const areas = [area, "*"].flat();
    return areas.some((one) => (RANK[permissions[one]] ?? 0) >= RANK[access]);
  },
};

function forget() {
  sessionStorage.removeItem(KEY);
  session.operator = null;
  signals.dispatchEvent(new Event("ended"));
}

/** Call `listener` when the sign-in of this tab has ended. */
export const onSignedOut = (listener) => signals.addEventListener("ended", listener);

tabs.addEventListener("message", ({ data }) => {
  const { tokens } = session;
  if (data.wanted && tokens) tabs.postMessage({ given: tokens });
  if (data.given) take?.(data.given);
  if (tokens && data.before === tokens.refresh) store(data);
  if (tokens && data.ended === tokens.refresh) forget();
});
