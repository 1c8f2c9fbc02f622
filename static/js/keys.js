// Keyboard shortcuts, declared in the page:
//   data-key="a"            this button, link or control answers to the key; data-key-label names it
//   data-card="req_…"       what is decided here; its keys act only while all of it is in view.
//                           data-version (a digest) says which state of it is shown
//   data-list="open|focus"  j and k move between its [data-item]s; "open" also follows the link
// A card that has just changed under the pointer, or under a finger on a key, takes no press for a
// moment: the first is refused and said, the second counts.
import { toast } from "./toast.js";

const SETTLE = 400; // ms
const shown = new WeakMap();
const changedAt = new WeakMap();

const cards = () => document.querySelectorAll("[data-card]");
const stateOf = (card) => `${card.dataset.card} ${card.dataset.version ?? ""}`;
const typing = (element) =>
  element.isContentEditable || element.matches("textarea, select, input:not([type=checkbox], [type=radio], [type=button])");

function note(first) {
  for (const card of cards()) {
    const state = stateOf(card);
    if (shown.get(card) === state) continue;
    shown.set(card, state);
    if (!first) changedAt.set(card, performance.now());
  }
}

function refuses(card) {
  if (performance.now() - (changedAt.get(card) ?? -Infinity) >= SETTLE) return false;
  changedAt.delete(card);
  toast("This request changed just now, so nothing was done. Look again, then press again.", "wait");
  return true;
}

function inView(card) {
  const { top, bottom } = card.getBoundingClientRect();
  return top >= -1 && bottom <= innerHeight + 1;
}

function guard(event) {
  const card = event.target.closest?.("[data-card]");
  if (!card || !event.isTrusted || !event.target.closest("button, input[type=submit]")) return;
  if (refuses(card)) {
    event.preventDefault();
    event.stopImmediatePropagation();
  }
}

const drawn = (element) => element.checkVisibility() && !element.disabled;

function targetOf(key) {
  const candidates = [...document.querySelectorAll(`[data-key="${CSS.escape(key)}"]`)].filter(drawn);
  const focused = document.activeElement?.closest("[data-card]");
  return candidates.find((element) => focused?.contains(element)) ?? candidates[0];
}

function press(element) {
  const card = element.closest("[data-card]");
  if (card && !inView(card)) {
    toast("Bring the whole request into view first; its keys act on what you can see.", "wait");
    return;
  }
  if (card && refuses(card)) return;
  if (typing(element)) element.focus();
  else element.click();
}

function move(step) {
  const list = document.querySelector("[data-list]");
  const items = [...(list?.querySelectorAll("[data-item]") ?? [])];
  if (!items.length) return;
  const here = items.findIndex((item) => item === document.activeElement || item.getAttribute("aria-current") === "true");
  const next = items[Math.max(0, Math.min(items.length - 1, here < 0 ? 0 : here + step))];
  next.focus({ preventScroll: true });
  next.scrollIntoView({ block: "nearest" });
  if (list.dataset.list === "open" && next !== items[here]) next.click();
}

function help() {
  const dialog = document.getElementById("keys");
  const rows = [...document.querySelectorAll("[data-key]")]
    .filter(drawn)
    .map((element) => [element.dataset.key, element.dataset.keyLabel ?? wordsOf(element)]);
  if (document.querySelector("[data-list]")) rows.unshift(["j", "Next in the list"], ["k", "Previous in the list"]);
  rows.push(["?", "This list"]);
  dialog.querySelector("dl").replaceChildren(...rows.flatMap(([key, words]) => {
    const [term, meaning, letter] = ["dt", "dd", "kbd"].map((name) => document.createElement(name));
    letter.textContent = key;
    term.append(letter);
    meaning.textContent = words;
    return [term, meaning];
  }));
  dialog.showModal();
}

function wordsOf(element) {
  const copy = element.cloneNode(true);
  copy.querySelectorAll("kbd").forEach((letter) => letter.remove());
  return copy.textContent.trim() || element.getAttribute("aria-label") || "";
}

function pressed(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || event.repeat) return;
  if (typing(event.target) || document.querySelector("dialog[open]")) return;
  const target = targetOf(event.key);
  if (target) press(target);
  else if (event.key === "j") move(1);
  else if (event.key === "k") move(-1);
  else if (event.key === "?") help();
  else return;
  event.preventDefault();
}

note(true);
document.addEventListener("htmx:after:swap", () => note(false));
document.addEventListener("click", guard, true);
document.addEventListener("keydown", pressed);
