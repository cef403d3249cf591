/**
 * A list whose items can be reordered: by dragging the grip, or with the arrow keys while the grip has the focus.
 * `moved(ids)` is called with the new order.
 */

import { h } from "../shared/dom.js";
import { t } from "../shared/words.js";

/** The grip of an item. `name` is the name of the item. */
export const grip = (name) =>
  h(
    "button",
    {
      type: "button",
      class: "plain grip",
      "aria-label": t("Move {name}: arrow up or down", { name }),
      title: t("Drag, or use the arrow keys"),
    },
    "⠿",
  );

/** Make the items (`li` with `data-id`) of a list movable. */
export function sortable(list, moved) {
  let carried = null;
  const order = () => [...list.children].map((item) => item.dataset.id);
  const put = (item, before) => {
    list.insertBefore(item, before);
    moved(order());
  };
  list.addEventListener("keydown", (event) => {
    const held = event.target.closest(".grip");
    if (!held || !["ArrowUp", "ArrowDown"].includes(event.key)) return;
    event.preventDefault();
    const item = held.closest("li");
    const other = event.key === "ArrowUp" ? item.previousElementSibling : item.nextElementSibling;
    if (!other) return;
    put(item, event.key === "ArrowUp" ? other : other.nextElementSibling);
    held.focus();
  });
  // Pointer events work on touch screens too, unlike the browser's own drag and drop.
  list.addEventListener("pointerdown", (event) => {
    const held = event.target.closest(".grip");
    if (!held || event.button !== 0) return;
    carried = held.closest("li");
    carried.classList.add("carried");
    list.setPointerCapture(event.pointerId); // the grip would lose the capture when it moves in the list
  });
  list.addEventListener("pointermove", (event) => {
    if (!carried) return;
    const over = document.elementFromPoint(event.clientX, event.clientY)?.closest("li");
    if (!over || over === carried || over.parentElement !== list) return;
    const { top, height } = over.getBoundingClientRect();
    list.insertBefore(carried, event.clientY < top + height / 2 ? over : over.nextElementSibling);
  });
  const drop = () => {
    if (!carried) return;
    carried.classList.remove("carried");
    carried = null;
    moved(order());
  };
  list.addEventListener("pointerup", drop);
  list.addEventListener("pointercancel", drop);
  return list;
}
