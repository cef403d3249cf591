/** Formats of amounts, times and durations. Times are in the reader's time zone. */

import { preferences } from "./preferences.js";
import { t } from "./words.js";

const SECONDS_BELOW = 90; // shorter waits are shown in seconds only

const locale = () => (preferences.language === "id" ? "id-ID" : "en-GB");

/** 12000 -> "Rp 12.000", in either language. Its space does not break. */
export const rupiah = (amount) => `Rp\u00a0${new Intl.NumberFormat("id-ID").format(amount)}`;

export const number = (value, options) => new Intl.NumberFormat(locale(), options).format(value);

export const percent = (share) =>
  share === null ? "–" : number(share, { style: "percent", maximumFractionDigits: 1 });

/** Date and time to the minute. */
export const moment = (iso) =>
  new Intl.DateTimeFormat(locale(), { dateStyle: "medium", timeStyle: "short" }).format(new Date(iso));

/** Time of day to the second. */
export const timeOfDay = (iso) => new Intl.DateTimeFormat(locale(), { timeStyle: "medium" }).format(new Date(iso));

/** A day of UTC: "2026-11-21" -> "21 Nov 2026". */
export const utcDay = (day) =>
  new Intl.DateTimeFormat(locale(), { dateStyle: "medium", timeZone: "UTC" }).format(new Date(day));

/** Date and time to the millisecond, with the time zone. */
export const exactly = (iso) =>
  new Intl.DateTimeFormat(locale(), {
    year: "numeric",
    month: "long",
    day: "numeric",
    hour: "2-digit",
    minute: "2-digit",
    second: "2-digit",
    fractionalSecondDigits: 3,
    timeZoneName: "long",
  }).format(new Date(iso));

/** @type {[Intl.RelativeTimeFormatUnit, number][]} */
const STEPS = [
  ["day", 86_400],
  ["hour", 3_600],
  ["minute", 60],
  ["second", 1],
];

/** "3 minutes ago", or "in 2 hours". */
export function ago(iso, now) {
  const seconds = (new Date(iso).getTime() - now) / 1000;
  const [unit, size] = STEPS.find(([, length]) => Math.abs(seconds) >= length) ?? STEPS[STEPS.length - 1];
  return new Intl.RelativeTimeFormat(locale(), { numeric: "auto" }).format(Math.trunc(seconds / size), unit);
}

/** 7260 -> "2 h 1 min". */
export function duration(seconds) {
  const minutes = Math.floor(seconds / 60);
  if (minutes < 1) return t("{n} s", { n: Math.floor(seconds) });
  if (minutes < 60) return t("{n} min", { n: minutes });
  return t("{h} h {n} min", { h: number(Math.floor(minutes / 60)), n: minutes % 60 });
}

/** 75 -> "75 s", 95 -> "1 min 35 s", 120 -> "2 min". `seconds` is rounded up. */
export function wait(seconds) {
  const whole = Math.ceil(seconds);
  if (whole < SECONDS_BELOW) return t("{n} s", { n: whole });
  const minutes = Math.floor(whole / 60);
  return whole % 60 ? t("{m} min {s} s", { m: minutes, s: whole % 60 }) : t("{n} min", { n: minutes });
}

/** 75 -> "1:15". */
export const countdown = (seconds) => `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
