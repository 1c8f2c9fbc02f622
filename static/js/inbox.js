// Rejecting: the reason is offered first. Ctrl Enter sends it, Escape goes back.
const boxOf = (element) => element.closest?.("details.reject");

document.addEventListener("toggle", (event) => {
  if (event.target.matches?.("details.reject[open]")) event.target.querySelector("textarea").focus();
}, true);

document.addEventListener("keydown", (event) => {
  const box = boxOf(event.target);
  if (event.key === "Escape" && box?.open) {
    box.open = false;
    box.querySelector("summary").focus();
  } else if (event.key === "Escape" && event.target.matches?.("[data-card] select")) {
    event.target.blur();
  } else if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && box) {
    box.querySelector("button").click();
  }
});

// A press elsewhere closes it; what was typed stays.
document.addEventListener("pointerdown", (event) => {
  const open = document.querySelector("details.reject[open]");
  if (open && !open.contains(event.target)) open.open = false;
});

// Another request starts at its top, also where the whole page scrolls.
const shown = () => document.querySelector("[data-card]")?.dataset.card;
let last = shown();
document.addEventListener("htmx:after:swap", () => {
  if (shown() !== last) scrollTo(0, 0);
  last = shown();
});
