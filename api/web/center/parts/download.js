/** A button that saves a list, with its filters, as a CSV file. */

import { ApiError, api } from "../kernel/api.js";
import { h } from "../shared/dom.js";
import { explain } from "../shared/form.js";
import { toast } from "../shared/toast.js";
import { t } from "../shared/words.js";

/** Save a file by the browser, as a click on a link to it does. */
export function save(content, name) {
  const address = URL.createObjectURL(content);
  h("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address));
}

/** `path` is the route of the list, and `what` says which list it is, for a page with several. */
export function download(path, query, what = null) {
  const run = async ({ currentTarget: button }) => {
    button.disabled = true;
    try {
      save(await api.file(path, query), `${path.split("/").at(-1)}.csv`);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      toast(error.field("") ?? explain(error));
    } finally {
      button.disabled = false;
    }
  };
  const words = t("Download as CSV");
  return h("button", { type: "button", onclick: run, "aria-label": what && `${words}: ${what}` }, words);
}
