/** Who wrote in a chat, as facts: numbers and times, never texts. */

import { duration, number } from "../shared/format.js";
import { t } from "../shared/words.js";

/** "3 by the customer, 5 by the mitra". */
export const messagesOf = ({ messages_by_customer: customer, messages_by_mitra: mitra }) =>
  t("{customer} by the customer, {mitra} by the mitra", { customer: number(customer), mitra: number(mitra) });

/** The lines about who wrote. */
export function whoWrote(talk) {
  if (talk.paired_at === null) return [];
  const { first_reply_seconds: first, longest_silence_seconds: silence } = talk;
  return [
    [t("Messages"), messagesOf(talk)],
    [t("First reply"), first === null ? t("none") : t("after {time}", { time: duration(first) })],
    silence !== null && [t("Longest silence"), duration(silence)],
  ];
}
