/** Screens instead of the app: loading, no connection, maintenance, an old version, an unknown address. */

import { actionButton } from "/try/kit/buttons.js";
import { explain } from "/try/kit/errors.js";
import { scene } from "/try/kit/scenes.js";
import { moment } from "/try/kit/times.js";
import { h } from "/try/shared/dom.js";
import { preferences } from "/try/shared/preferences.js";
import { t } from "/try/shared/words.js";

const notice = (picture, title, texts, action = null) => ({
  title,
  content: h(
    "div",
    { class: "screen notice-screen" },
    h("div", { class: "grow stack centered" }, scene(picture), h("h1", { tabindex: "-1" }, title), texts),
    action,
  ),
});

export const loadingScreen = () => ({
  title: t("Loading"),
  content: h("div", { class: "screen loading", role: "img", "aria-label": t("Loading") }, scene("logo")),
});

export const unreachableScreen = ({ app }) =>
  notice(
    "cloud",
    t("We can't reach the service"),
    h("p", { class: "lead" }, explain(app.service.failed)),
    actionButton(t("Try again"), () => app.start(), { kind: "primary" }),
  );

export const maintenanceScreen = ({ app }) => {
  const { message_id: indonesian, message_en: english, until } = app.service.config.maintenance;
  return notice("moon", t("We'll be back soon"), [
    h("p", { class: "lead" }, preferences.language === "id" ? indonesian : english),
    until && h("p", {}, t("Expected back: {time}", { time: moment(until) })),
  ]);
};

export const updateScreen = () =>
  notice(
    "sun",
    t("Please update the app"),
    h("p", { class: "lead" }, t("This version is too old to work with the service.")),
    actionButton(t("Load the new version"), () => location.reload(), { kind: "primary" }),
  );

export const missingScreen = () =>
  notice(
    "cloud",
    t("There is nothing here"),
    h("p", { class: "lead" }, t("The page that you opened does not exist.")),
    h("a", { class: "button primary", href: "#/" }, t("To the start")),
  );
