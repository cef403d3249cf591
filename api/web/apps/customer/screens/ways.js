/** The customer's ways to sign in: the phone and the identities that are linked to the account. */

import { actionButton } from "/try/kit/buttons.js";
import { codeSignIn } from "/try/kit/code_sign_in.js";
import { icon } from "/try/kit/icons.js";
import { backLink } from "/try/kit/links.js";
import { confirmSheet, openSheet } from "/try/kit/sheet.js";
import { topBar } from "/try/kit/shell.js";
import { h } from "/try/shared/dom.js";
import { go } from "/try/shared/router.js";
import { toast } from "/try/shared/toast.js";
import { t } from "/try/shared/words.js";
import { PROVIDERS, withIdentity } from "../identity.js";
import { providerButton } from "./sign_in.js";

// The service asks for a sign-in within 10 minutes; one is left for the code.
const RECENT_MS = 9 * 60_000;

/** Return this device as the service knows it: `created_at` is the time of the sign-in. */
async function thisDevice(client) {
  const { items } = await client.call("GET /api/shared/auth/sessions", { query: { limit: 200 } });
  return items.find((device) => device.current);
}

/** Ask for a new sign-in in one of the ways that the account has. The one before ends with it. */
function signInAgain(context, before) {
  const { client, scope } = context;
  const { phone, identities } = client.state.user;
  const signedIn = async () => {
    await client
      .call("DELETE /api/shared/auth/sessions/{auth_session_id}", { path: { auth_session_id: before.id } })
      .catch(() => {}); // it is listed under the devices until it has expired
    toast(t("You are signed in again. You can change your ways to sign in now."));
  };
  openSheet(scope, {
    title: t("Sign in again first"),
    content: () => [
      h("p", {}, t("Your last sign-in was a while ago. To keep your account safe, we ask you again.")),
      phone ? codeSignIn(scope, { phone, fixed: true, signedIn }) : null,
      h(
        "div",
        { class: "stack-buttons" },
        identities.map((provider) => providerButton(context, provider, signedIn)),
      ),
    ],
  });
}

const heading = () => /** @type {HTMLElement} */ (document.querySelector("main h1"));

/** Make a button that changes a way to sign in, after a sign-in that is recent. */
function changeButton(context, label, name, act) {
  const { client, scope } = context;
  return actionButton(
    label,
    async (button) => {
      const device = await thisDevice(client);
      if (scope.ended) return;
      if (client.now() - Date.parse(device.created_at) > RECENT_MS) signInAgain(context, device);
      else await act();
      if (!button.isConnected) heading().focus(); // the row is another one
    },
    { kind: "quiet", name: `${label}: ${name}` },
  );
}

function changePhone({ client, scope }) {
  const made = openSheet(scope, {
    title: t("Your phone number"),
    content: (sheet) => [
      client.state.user.phone ? h("p", {}, t("With another number all your other devices are signed out.")) : null,
      codeSignIn(scope, {
        use: (...proof) => client.linkPhone(...proof),
        signedIn() {
          sheet.close();
          toast(t("Your phone number is linked."));
        },
      }),
    ],
  });
  return made.closed;
}

async function linkIdentity({ client, scope }, provider) {
  const name = PROVIDERS[provider];
  if (await withIdentity(scope, provider, (...proof) => client.linkIdentity(...proof)))
    toast(t("{provider} is linked.", { provider: name }));
}

function unlinkIdentity({ client, scope }, provider) {
  const name = PROVIDERS[provider];
  return confirmSheet(scope, {
    title: t("Unlink {provider}?", { provider: name }),
    text: t("You can't sign in with it after this."),
    submit: t("Unlink"),
    danger: true,
    act: () => client.unlinkIdentity(provider),
  });
}

const wayRow = (start, name, text, end) =>
  h(
    "li",
    {},
    h(
      "div",
      { class: "row-link" },
      h("span", { class: "avatar" }, start),
      h("span", { class: "row-main" }, h("strong", {}, name), h("small", {}, text)),
      end,
    ),
  );

function phoneRow(context, phone) {
  const name = t("Phone number");
  const button = changeButton(context, phone ? t("Change") : t("Link"), name, () => changePhone(context));
  return wayRow(icon("phone"), name, phone ?? t("Not linked"), button);
}

function identityRow(context, provider, { phone, identities, email }) {
  const name = PROVIDERS[provider];
  const linked = identities.includes(provider);
  const isLast = linked && !phone && identities.length === 1;
  const change = linked
    ? changeButton(context, t("Unlink"), name, () => unlinkIdentity(context, provider))
    : changeButton(context, t("Link"), name, () => linkIdentity(context, provider));
  const end = isLast ? h("span", { class: "badge" }, t("The only way")) : change;
  return wayRow(provider.toUpperCase(), name, linked ? (email ?? t("Linked")) : t("Not linked"), end);
}

export function waysScreen(context) {
  const { app, client, scope } = context;
  if (client.state.user.is_anonymous) {
    go("/sign-in", {}, { replace: true });
    return null;
  }
  const list = h("ul", { class: "rows" });
  let shown = null;
  scope.watch(({ user }) => {
    if (user === null || user === shown) return;
    shown = user;
    const { providers } = app.service;
    const offered = ["a", "b"].filter((one) => providers[`identity_${one}`].enabled || user.identities.includes(one));
    list.replaceChildren(phoneRow(context, user.phone), ...offered.map((one) => identityRow(context, one, user)));
  });
  return {
    title: t("Ways to sign in"),
    content: h(
      "div",
      { class: "screen" },
      topBar(t("Ways to sign in"), backLink("#/profile")),
      h("p", { class: "lead" }, t("Each of them opens the same account.")),
      list,
    ),
  };
}
