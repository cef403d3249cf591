/** Fields with labels, hints and what is wrong with them; and a form that sends itself once at a time. */

import { ApiError } from "../kernel/api.js";
import { freshId, h } from "../kernel/dom.js";
import { t } from "../kernel/words.js";

/** Make a field. `control` is an input, select or textarea with a name; a `hidden` label is only read out. */
export function field(label, control, hint, { hidden = false } = {}) {
  const id = control.id || freshId();
  control.id = id;
  const described = hint ? h("span", { class: "hint", id: `${id}-hint` }, hint) : null;
  if (described) control.setAttribute("aria-describedby", described.id);
  return h(
    "div",
    { class: "field" },
    h("label", { for: id, class: hidden && "hidden-label" }, label),
    control,
    described,
  );
}

/** A box to tick, with its label behind it. */
export function tick(label, properties) {
  const id = freshId();
  return h(
    "div",
    { class: "tick" },
    h("input", { type: "checkbox", id, ...properties }),
    h("label", { for: id }, label),
  );
}

/** A select; `options` are [value, words]. */
export function select(properties, options, chosen) {
  const made = options.map(([value, words]) => h("option", { value, selected: value === chosen }, words));
  return h("select", properties, made);
}

/** An error in the operator's words. */
export function explain(error) {
  if (!(error instanceof ApiError)) throw error;
  const fields = error.details.fields?.map((one) => `${one.field}: ${t(one.message)}`) ?? [];
  return fields.length ? fields.join("; ") : t(error.message);
}

/** What must be filled in is asked for before the service is. */
function checkFilled(form) {
  const empty = [...form.elements].filter((control) => control.required && !control.value.trim());
  if (!empty.length) return;
  const fields = empty.map(({ name }) => ({ field: name, message: "This field is required." }));
  throw new ApiError(422, { code: "VALIDATION_ERROR", message: fields[0].message, details: { fields } });
}

/** Show what is wrong at its field; what belongs to none is shown above the buttons. */
function complain(form, error) {
  let first = null;
  for (const one of error.details?.fields ?? []) {
    const control = form.elements.namedItem(one.field);
    if (!(control instanceof HTMLElement)) continue;
    const id = freshId();
    control.setAttribute("aria-invalid", "true");
    control.setAttribute("aria-errormessage", id);
    control.after(h("span", { class: "wrong", id }, t(one.message)));
    first ??= control;
  }
  if (first === null) form.querySelector(".form-error").append(h("div", { class: "notice bad" }, explain(error)));
  first?.focus();
}

/**
 * Make a form. `send(data, event)` is awaited with buttons disabled; an ApiError that it throws is shown.
 * `other` buttons stand before the one that sends.
 */
export function form({ fields, submit, send, other = [], label, danger = false }) {
  const button = h("button", { class: danger ? "danger" : "primary", type: "submit" }, submit);
  const made = h(
    "form",
    {
      "aria-label": label,
      novalidate: true,
      async onsubmit(event) {
        event.preventDefault();
        if (button.disabled) return;
        made.querySelectorAll(".wrong, .form-error > *").forEach((old) => old.remove());
        made.querySelectorAll("[aria-invalid]").forEach((control) => control.removeAttribute("aria-invalid"));
        button.disabled = true;
        try {
          checkFilled(made);
          await send(new FormData(made), event);
        } catch (error) {
          if (!(error instanceof ApiError)) throw error;
          complain(made, error);
        } finally {
          button.disabled = false;
        }
      },
    },
    fields,
    h("div", { class: "form-error", role: "alert" }),
    h("div", { class: "row end" }, other, button),
  );
  return made;
}

/** The whole number that somebody wrote; what is none goes to the service as it is, which says what it wants. */
export function integer(text) {
  const written = String(text).trim();
  return /^-?\d{1,15}$/.test(written) ? Number(written) : written;
}

/** The number that was written, with a decimal point or comma; other text goes to the service as it is. */
export function decimal(text) {
  const written = String(text).trim().replace(",", ".");
  return /^-?\d{1,9}(\.\d{1,6})?$/.test(written) ? Number(written) : written;
}
