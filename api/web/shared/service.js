/** What the shared modules need of the page's client of the service. The page assigns it before it shows a form. */

import { t } from "./words.js";

export const service = {
  /**
   * The class of the errors that the service answers; `details.fields` has the messages about fields.
   * @type {any}
   */
  Failure: Error,
  /** Return an error's message in the reader's language. */
  message: (error) => t(error.message),
  /** Return the service's time, in milliseconds. */
  now: () => Date.now(),
};
