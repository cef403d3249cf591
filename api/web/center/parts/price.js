/** Texts about tiers and the discount: labels of their fields, and formatted values. */

import { moment, rupiah } from "../shared/format.js";
import { t } from "../shared/words.js";
import { mode } from "./status.js";

const WORDS = {
  price_idr: "Price",
  tag: "Label",
  minutes: "Minutes",
  enabled: "Enabled",
  gimmick_price_idr: "Crossed-out price",
  duration_minutes: "Minutes",
  modes: "For",
  mode: "For",
  is_active: "On the list",
  sort_order: "Position",
  starts_at: "From",
  scheduled: "Scheduled prices",
};

/** The label of a field. */
export const words = (name) => t(WORDS[name] ?? name);

/** The name of a tier, with its mode, because chats and calls can have the same minutes. */
export const called = (tier) => t("{n} min, {mode}", { n: tier.minutes, mode: mode(tier.mode) });

/** "from 29 Nov 2026, 00:00: Rp 48.000". */
export const starts = ({ starts_at, price_idr }) =>
  t("from {moment}: {price}", { moment: moment(starts_at), price: rupiah(price_idr) });

/** A field's formatted value. */
export function told(name, value) {
  if (value === null || value === undefined || value === "") return "–";
  if (name.endsWith("price_idr")) return rupiah(value);
  if (name === "starts_at") return moment(value);
  if (name === "scheduled") return value.map(starts).join("; ") || "–";
  if (typeof value === "boolean") return value ? t("yes") : t("no");
  if (name === "mode") return mode(value);
  if (Array.isArray(value)) return value.map(mode).join(", ") || "–";
  return String(value);
}
