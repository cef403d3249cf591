/**
 * Report the end of a payment to the window that shows or opened the development payment page, as the message
 * `{ type: "payment", payment_request_id, status }`. Only windows of this origin get it.
 */

const { paymentRequestId, status } = document.querySelector("main").dataset;
const message = { type: "payment", payment_request_id: paymentRequestId, status };
if (status !== "pending") {
  if (parent !== window) parent.postMessage(message, location.origin);
  opener?.postMessage(message, location.origin);
}
