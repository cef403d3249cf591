/** The mark that a chat's topic is sensitive. The service's configuration says whether to ask first, and whether it stays. */

import { confirmSheet } from "/try/kit/sheet.js";
import { t } from "/try/shared/words.js";

/** Whether the mark can be changed now. */
export const canMark = ({ status, topic_sensitivity: now }, config) =>
  ["active", "expired", "closing"].includes(status) && !(now === "sensitive" && config.sensitive_flag_one_way_latch);

/** Return the label of the button that changes the mark. */
export const markLabel = ({ topic_sensitivity: now }) =>
  now === "sensitive" ? t("Mark as not sensitive") : t("Mark as sensitive");

/** Change the mark. */
export const changeMark = (client, { id, topic_sensitivity: now }) =>
  client.setTopic(id, now === "sensitive" ? "regular" : "sensitive");

/** Ask before the mark is changed. */
export function confirmMark(scope, session, config) {
  const marks = session.topic_sensitivity !== "sensitive";
  return confirmSheet(scope, {
    title: marks ? t("Is this topic sensitive?") : t("Is this topic not sensitive?"),
    text:
      marks && config.sensitive_flag_one_way_latch
        ? t("You can't take this mark back. The customer is not told.")
        : t("The customer is not told."),
    submit: markLabel(session),
    act: () => changeMark(scope.client, session),
  });
}
