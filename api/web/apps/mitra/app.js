/** The mitra app: the client, what it needs from the service at a cold start, and its screens by address. */

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
import { preferences } from "/try/shared/preferences.js";
import { go, route } from "/try/shared/router.js";
import { WIDE, withDesk } from "./desk.js";
import { accountScreen } from "./screens/account.js";
import { chatScreen } from "./screens/chat.js";
import { historyScreen } from "./screens/history.js";
import { homeScreen } from "./screens/home.js";
import { signInScreen } from "./screens/sign_in.js";
import { INDONESIAN } from "./words.id.js";

const APP_VERSION = "1.0.0";
const CONFIG_AGAIN_MS = 30_000;

const { prefix, query } = prepare("mitra", INDONESIAN);
const service = { started: false, failed: null, config: null };

route("/", withDesk(homeScreen));
route("/chat/:id", withDesk(chatScreen));
route("/history", withDesk(historyScreen));
route("/account", withDesk(accountScreen));
route("/devices", withDesk(devicesScreen("#/account")));
route("/blocks", withDesk(blocksScreen("#/account")));

/** Return the screen that must be shown whatever the address says, or null. */
function gate() {
  if (service.failed) return unreachableScreen;
  if (!service.started) return loadingScreen;
  if (service.config.maintenance) return maintenanceScreen;
  if (needsUpdate(APP_VERSION, service.config)) return updateScreen;
  return client.state.user === null ? signInScreen : null;
}

/** Read the configuration of apps. Returns whether it has changed. */
async function readAppConfig() {
  const read = await client.call("GET /api/shared/config/app");
  const changed = JSON.stringify(read) !== JSON.stringify(service.config);
  service.config = read;
  return changed;
}

const config = await readConfig();
const client = createClient({
  role: "mitra",
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
  service,
  /** The number that the sign-in fills in. */
  phone: (query.get("phone") ?? "").replace(/^ /, "+"), // a "+" that was not escaped is a space
  /** Whether an operator deactivated the mitra before the sign-in ended. */
  deactivated: false,
  /** Show the screen of the address again, in the chosen language. */
  refresh() {
    client.setLocale(preferences.language);
    shell.show();
  },
  start,
};
const shell = createShell({ client, context: { app }, gate, missing: missingScreen });

async function start() {
  service.failed = null;
  shell.show();
  try {
    await readAppConfig();
    await client.start();
    service.started = true;
    void reportPush(client, query);
  } catch (error) {
    service.failed = error;
  }
  shell.show();
}

client.on((frame) => {
  if (frame.type === "mitra_status_changed") app.deactivated = frame.reason === "deactivated";
});
await start();

let userId = client.state.user?.id;
client.subscribe(({ user }) => {
  if (user?.id === userId) return;
  userId = user?.id;
  if (user) app.deactivated = false;
  else go("/", {}, { replace: true });
  shell.show();
});
WIDE.addEventListener("change", () => shell.show());
shell.scope.every(
  CONFIG_AGAIN_MS,
  async () => {
    if (service.started && (await readAppConfig().catch(() => false))) shell.show();
  },
  { visible: true },
);
