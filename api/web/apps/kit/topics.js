/** The twelve topics that a customer can choose from. They are sent in English and shown in the reader's language. */

import { t } from "/try/shared/words.js";

const NAMES = () => ({
  family: t("Family"),
  relationship: t("Relationship"),
  friends: t("Friends"),
  work: t("Work"),
  study: t("Study"),
  money: t("Money"),
  anxiety: t("Anxiety"),
  sadness: t("Sadness"),
  loneliness: t("Loneliness"),
  grief: t("Grief"),
  sleep: t("Sleep"),
  "self-esteem": t("Self-esteem"),
});

/** Return topic -> name, in the order in which they are offered. */
export const topics = () => NAMES();

/** Return a topic's name. Topics of other apps are shown as they are. */
export const topicName = (topic) => NAMES()[topic] ?? topic;
