/** Table columns of chat requests: when the mitra was asked, and the answer. */

import { number, rupiah } from "../shared/format.js";
import { time } from "../shared/time.js";
import { t } from "../shared/words.js";
import { linked } from "./linked.js";
import { chip, response } from "./status.js";

export const asked = () => ({
  label: t("Invited"),
  cell: (one) => linked("sessions", `/sessions/${one.session_id}`, time(one.notified_at)),
});

export const outcome = () => [
  { label: t("Answer"), cell: (one) => (one.response ? response.chip(one.response) : chip(t("open"), "busy")) },
  { label: t("Answered"), cell: (one) => time(one.responded_at) },
  {
    label: t("Too late by"),
    cell: (one) => (one.lost_by_ms === null ? "–" : t("{n} ms", { n: number(one.lost_by_ms) })),
    number: true,
  },
  { label: t("Chats at that time"), cell: (one) => number(one.active_session_count), number: true },
];

const TENTHS = { maximumFractionDigits: 1 };
const seconds = (ms) => (ms === null ? "–" : t("{n} s", { n: number(ms / 1000, TENTHS) }));
/** How often another mitra accepted before this one did, and the median time by which: "3 × 1.2 s". */
const lost = ({ lost: times, lost_by_ms: ms }) => (times ? `${number(times)} × ${seconds(ms)}` : "–");
const rate = (value) => (value === null ? "–" : number(value, TENTHS));

/** The figures of a mitra that say how fairly they get sessions: [label, text of a row of the summary]. */
export const fairness = () => [
  [t("Sessions an hour"), (one) => rate(one.share_per_hour_online)],
  [t("Median answer"), (one) => seconds(one.median_answer_ms)],
  [t("Lost by"), lost],
  [t("Earned"), (one) => rupiah(one.earned_idr)],
];
