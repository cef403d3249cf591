/** A note above data that was read from a replica of the database. */

import { h } from "../shared/dom.js";
import { number } from "../shared/format.js";
import { t } from "../shared/words.js";

/** Return how far the data of an answer is behind; null if it is current. */
export const replicaNote = ({ replica_lag_seconds: lag }) =>
  Number.isFinite(lag)
    ? h("p", { class: "quiet" }, t("Read from a replica, at most {seconds} s behind.", { seconds: number(lag) }))
    : null;
