/** Durations and times of day, for people. */

import { preferences } from "/try/shared/preferences.js";

const locale = () => (preferences.language === "id" ? "id-ID" : "en-GB");

/** 75 -> "1:15", 3675 -> "1:01:15". `seconds` is rounded up. */
export function clock(seconds) {
  const whole = Math.ceil(seconds);
  const two = (value) => String(value).padStart(2, "0");
  const minutes = Math.floor(whole / 60);
  if (minutes < 60) return `${minutes}:${two(whole % 60)}`;
  return `${Math.floor(minutes / 60)}:${two(minutes % 60)}:${two(whole % 60)}`;
}

const formatted = (options, time) => new Intl.DateTimeFormat(locale(), options).format(new Date(time));

/** "14:05", in the reader's time zone. */
export const timeOfDay = (time) => formatted({ hour: "2-digit", minute: "2-digit" }, time);

/** "21 Nov 2026", in the reader's time zone. */
export const day = (time) => formatted({ dateStyle: "medium" }, time);

/** "21 Nov 2026, 14:05", in the reader's time zone. */
export const moment = (time) => formatted({ dateStyle: "medium", timeStyle: "short" }, time);

/** "Sat 21 Nov", a heading between messages. */
export const dayHeading = (time) => formatted({ weekday: "long", day: "numeric", month: "long" }, time);
