/** Fields with labels, hints and error messages; and a form that sends one request at a time. */

import { freshId, h } from "./dom.js";
import { service } from "./service.js";
import { t } from "./words.js";

/** Make a field. `control` is an input, select or textarea with a name. A `hidden` label is only for screen readers. */
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

/** A checkbox, followed by its label. */
export function tick(label, properties) {
  const id = freshId();
  return h(
    "div",
    { class: "tick" },
    h("input", { type: "checkbox", id, ...properties }),
    h("label", { for: id }, label),
  );
}

/** A select. `options` are [value, label]. */
export function select(properties, options, chosen) {
  const made = options.map(([value, words]) => h("option", { value, selected: value === chosen }, words));
  return h("select", properties, made);
}

/** Return the message of an error in the reader's language. */
export function explain(error) {
  if (!(error instanceof service.Failure)) throw error;
  const fields = error.details.fields?.map((one) => `${one.field}: ${t(one.message)}`) ?? [];
  return fields.length ? fields.join("; ") : service.message(error);
}

/** Return an error that names the required fields that are empty, without a request; null if all are filled. */
function unfilled(form) {
  const empty = [...form.elements].filter((control) => control.required && !control.value.trim());
  if (!empty.length) return null;
  return { details: { fields: empty.map(({ name }) => ({ field: name, message: "This field is required." })) } };
}

/** Show each message at its field, and messages without a field above the buttons. */
function complain(form, error) {
  let first = null;
  for (const one of error.details?.fields ?? []) {
    const control = form.elements.namedItem(one.field);
    if (!(control instanceof HTMLElement)) continue;
    const id = freshId();
    control.setAttribute("aria-invalid", "true");
    control.setAttribute("aria-errormessage", id);
    control.after(h("span", { class: "wrong", id, "aria-live": "polite" }, t(one.message)));
    first ??= control;
  }
  if (first === null) form.querySelector(".form-error").append(h("div", { class: "notice bad" }, explain(error)));
  first?.focus();
}

/**
 * Make a form. While `send(data, event)` runs the buttons are disabled; a `service.Failure` that it throws is shown.
 * `other` buttons come before the one that sends.
 * @param {Record<string, any>} options
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
        for (const old of made.querySelectorAll(".wrong, .form-error > *")) old.remove();
        for (const control of made.querySelectorAll("[aria-invalid]")) control.removeAttribute("aria-invalid");
        const missing = unfilled(made);
        if (missing) {
          complain(made, missing);
          return;
        }
        button.disabled = true;
        try {
          await send(new FormData(made), event);
        } catch (error) {
          if (!(error instanceof service.Failure)) throw error;
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

/** Parse a whole number. Other text is returned unchanged, because the service then answers what it expects. */
export function integer(text) {
  const written = String(text).trim();
  return /^-?\d{1,15}$/.test(written) ? Number(written) : written;
}

/** Parse an amount in whole rupiah, with or without the points and the sign of "Rp 48.000"; other text as `integer`. */
export function money(text) {
  const written = String(text).replace(/^\s*rp\.?/i, "");
  return integer(/^\s*\d{1,3}(\.\d{3})+\s*$/.test(written) ? written.replaceAll(".", "") : written);
}

/** Parse a number with a decimal point or comma. Other text is returned unchanged. */
export function decimal(text) {
  const written = String(text).trim().replace(",", ".");
  return /^-?\d{1,9}(\.\d{1,6})?$/.test(written) ? Number(written) : written;
}
