/** The customer app: the client, what it needs from the service at a cold start, and its screens by address. */

import { browserStorage, createClient } from "/client/index.js";
import { blocksScreen } from "/try/kit/screens/blocks.js";
import { devicesScreen } from "/try/kit/screens/devices.js";
import {
  loadingScreen,
  maintenanceScreen,
  missingScreen,
  unreachableScreen,
  updateScreen,
} from "/try/kit/screens/notices.js";
import { createShell } from "/try/kit/shell.js";
import { connectShared, prepare, readConfig, reportPush } from "/try/kit/start.js";
import { needsUpdate } from "/try/kit/versions.js";
import { rupiah } from "/try/shared/format.js";
import { preferences } from "/try/shared/preferences.js";
import { go, route } from "/try/shared/router.js";
import { toast } from "/try/shared/toast.js";
import { t } from "/try/shared/words.js";
import { Draft } from "./draft.js";
import { chatScreen } from "./screens/chat.js";
import { historyScreen, mitraScreen } from "./screens/history.js";
import { homeScreen } from "./screens/home.js";
import { introScreen } from "./screens/intro.js";
import { nameScreen } from "./screens/name.js";
import { paymentScreen } from "./screens/payment.js";
import { paymentsScreen } from "./screens/payments.js";
import { pricesScreen } from "./screens/prices.js";
import { profileScreen } from "./screens/profile.js";
import { searchScreen } from "./screens/search.js";
import { phoneScreen, signInScreen } from "./screens/sign_in.js";
import { topicsScreen } from "./screens/topics.js";
import { waysScreen } from "./screens/ways.js";
import { INDONESIAN } from "./words.id.js";

const APP_VERSION = "1.0.0";
const CONFIG_AGAIN_MS = 30_000;
const OPEN_TO_ALL = ["/", "/topics", "/sign-in", "/sign-in/phone"]; // screens before the sign-in

const { prefix, query } = prepare("customer", INDONESIAN);
const draft = new Draft(browserStorage(`${prefix}draft:`));
const service = { started: false, failed: null, config: null, providers: null };

route("/", homeScreen);
route("/topics", topicsScreen);
route("/sign-in", signInScreen);
route("/sign-in/phone", phoneScreen);
route("/prices", pricesScreen);
route("/payment/:id", paymentScreen);
route("/search/:id", searchScreen);
route("/chat/:id", chatScreen);
route("/history", historyScreen);
route("/history/:id", mitraScreen);
route("/profile", profileScreen);
route("/ways", waysScreen);
route("/devices", devicesScreen("#/profile"));
route("/blocks", blocksScreen("#/profile"));
route("/payments", paymentsScreen);

/** Return the screen that must be shown whatever the address says, or null. */
function gate(path) {
  const user = /** @type {import("/client/index.js").Customer | null} */ (client.state.user);
  if (service.failed) return unreachableScreen;
  if (!service.started) return loadingScreen;
  if (service.config.maintenance) return maintenanceScreen;
  if (needsUpdate(APP_VERSION, service.config)) return updateScreen;
  if (!draft.choices.introSeen && !user?.usp_seen) return introScreen;
  if (user === null) {
    if (path === "/" && !client.state.signedOut) return topicsScreen;
    return OPEN_TO_ALL.includes(path) && path !== "/" ? null : signInScreen;
  }
  return user.display_name === null && !path.startsWith("/sign-in") ? nameScreen : null;
}

/** Read the configuration of apps. Returns whether it has changed. */
async function readAppConfig() {
  const config = await client.call("GET /api/shared/config/app");
  const changed = JSON.stringify(config) !== JSON.stringify(service.config);
  service.config = config;
  return changed;
}

const config = await readConfig();
const client = createClient({
  role: "customer",
  api: config.api,
  sockets: config.sockets,
  storage: browserStorage(prefix),
  locale: preferences.language,
  platform: "web",
  appVersion: APP_VERSION,
});
connectShared(client);

const app = {
  client,
  draft,
  service,
  /** Continue after a sign-in: to the prices for a new customer who was choosing a session, else home. */
  async signedIn() {
    const user = /** @type {import("/client/index.js").Customer} */ (client.state.user);
    if (draft.choices.introSeen && !user.usp_seen) {
      client.call("POST /api/client/usp-seen").catch(() => {}); // asked again at the next sign-in
    }
    const { has_live_session: live, has_consulted_before: known } = await client.call(
      "GET /api/client/onboarding-state",
    );
    const on = draft.choices.starting && !live && !known;
    go(on ? "/prices" : "/", {}, { replace: true });
    shell.show();
  },
  /** Show the screen of the address again, in the chosen language. */
  refresh() {
    client.setLocale(preferences.language);
    shell.show();
  },
  /** Read again what a cold start needs, after a failure. */
  start,
};
const shell = createShell({ client, context: { app }, gate, missing: missingScreen });

async function start() {
  service.failed = null;
  shell.show();
  try {
    await Promise.all([
      draft.load(),
      readAppConfig(),
      client.call("GET /api/shared/auth-providers").then((providers) => {
        service.providers = providers;
      }),
    ]);
    await client.start();
    service.started = true;
    void reportPush(client, query);
  } catch (error) {
    service.failed = error;
  }
  shell.show();
}

await start();

client.on((frame) => {
  if (frame.type !== "payment_updated") return;
  const { refund, failure, status } = frame.payment_request;
  if (status !== "consumed" || failure || refund?.status !== "succeeded") return;
  toast(t("{amount} was given back to you.", { amount: rupiah(refund.amount) }));
});

let user = client.state.user;
client.subscribe((state) => {
  const changed = state.user?.id !== user?.id || state.user?.display_name !== user?.display_name;
  user = state.user;
  if (changed) shell.show();
});
shell.scope.every(
  CONFIG_AGAIN_MS,
  async () => {
    if (service.started && (await readAppConfig().catch(() => false))) shell.show();
  },
  { visible: true },
);
