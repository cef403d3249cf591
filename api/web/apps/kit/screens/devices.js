/** The devices on which the user is signed in; any of them can be signed out. */

import { actionButton } from "/try/kit/buttons.js";
import { icon } from "/try/kit/icons.js";
import { backLink } from "/try/kit/links.js";
import { pagedList } from "/try/kit/paged_list.js";
import { confirmSheet } from "/try/kit/sheet.js";
import { topBar } from "/try/kit/shell.js";
import { moment } from "/try/kit/times.js";
import { h } from "/try/shared/dom.js";
import { t } from "/try/shared/words.js";

const BROWSERS = ["Firefox", "Edg", "Chrome", "Safari"]; // Edge and Chrome also name those behind them

/** Return a device's name for its user: the browser, or the platform. */
function deviceName({ user_agent: agent, platform, app_version: version }) {
  const browser = BROWSERS.find((name) => agent?.includes(`${name}/`));
  const name = browser === "Edg" ? "Edge" : (browser ?? platform ?? t("Unknown device"));
  return version ? `${name} · ${version}` : name;
}

/** Return the screen of an app. `back` is the address of the screen before it. */
export const devicesScreen = (back) => (context) => devices(context, back);

function devices({ client, scope }, back) {
  function row(device) {
    const name = deviceName(device.device_info);
    const signOut = () =>
      confirmSheet(scope, {
        title: t("Sign out this device?"),
        text: name,
        submit: t("Sign out"),
        danger: true,
        act: async () => {
          await client.call("DELETE /api/shared/auth/sessions/{auth_session_id}", {
            path: { auth_session_id: device.id },
          });
          line.closest("li").remove();
        },
      });
    const line = h(
      "div",
      { class: "row-link" },
      h("span", { class: "avatar" }, icon("device")),
      h(
        "span",
        { class: "row-main" },
        h("strong", {}, name),
        h("small", {}, t("Last used {time}", { time: moment(device.last_used_at ?? device.created_at) })),
      ),
      device.current
        ? h("span", { class: "badge good" }, t("This device"))
        : actionButton(t("Sign out"), signOut, { kind: "quiet", name: `${t("Sign out")}: ${name}` }),
    );
    return line;
  }
  return {
    title: t("Devices"),
    content: h(
      "div",
      { class: "screen" },
      topBar(t("Devices"), backLink(back)),
      h("p", { class: "lead" }, t("You are signed in on these devices.")),
      pagedList(scope, {
        read: (cursor) => client.call("GET /api/shared/auth/sessions", { query: cursor ? { cursor } : {} }),
        row,
        empty: h("p", { class: "empty" }, t("There are none.")),
      }),
    ),
  };
}
