/** The identity providers: a page inside the app posts the signed token, for a sign-in or a link to the account. */

import { preferences } from "/try/shared/preferences.js";
import { t } from "/try/shared/words.js";
import { openWebView } from "./web_view.js";

export const PROVIDERS = { a: "Provider A", b: "Provider B" };

const nonce = () => {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
};

/**
 * Ask a provider ("a" or "b") for a token, and use it: `use(provider, token, nonce)`. Returns whether it was used; false if
 * the customer closed the page.
 */
export async function withIdentity(scope, provider, use) {
  const asked = nonce();
  const { language: lang, theme } = preferences;
  const query = new URLSearchParams({ origin: location.origin, nonce: asked, lang, theme });
  const url = `/dev/identity-${provider}?${query}`;
  const sheet = openWebView(scope, {
    title: t("Continue with {provider}", { provider: PROVIDERS[provider] }),
    url,
    link: false, // a tab could not post the token to this page
    message(data, origin) {
      if (origin === location.origin && data?.type === "identity") sheet.close(data.identity_token);
    },
  });
  const token = await sheet.closed;
  if (!token) return false;
  await use(provider, token, asked);
  return true;
}
