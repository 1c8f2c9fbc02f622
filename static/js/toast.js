// Short messages in a corner, and what happens when a request of htmx fails.
// The server sends one as `HX-Trigger: {"toast": {"text": "…", "tone": "good|wait|bad"}}`, or as
// components/toast.html retargeted to #toasts.

const STAYS = 7_000; // ms; errors stay until dismissed
const WORDS = {
  0: "The server cannot be reached. Nothing was changed; try again.",
  401: "You are signed out. Reload the page to sign in again.",
  403: "You may not do this.",
  404: "It is not there any more. Reload the page.",
  409: "It changed in the meantime. Look at it again.",
  413: "That is too large.",
  429: "Too many requests. Wait a moment and try again.",
};
const place = document.getElementById("toasts");

export function toast(text, tone = "good") {
  const element = document.getElementById("toast").content.firstElementChild.cloneNode(true);
  element.classList.add(tone);
  element.querySelector("p").textContent = text;
  if (tone === "bad") element.setAttribute("role", "alert");
  else leave(element);
  place.append(element);
}

function leave(element) {
  setTimeout(() => (element.matches(":hover, :focus-within") ? leave(element) : element.remove()), STAYS);
}

// Only answers meant for a part are swapped into it: a form with its errors (422), or what the
// server aimed elsewhere. Any other failure is said, and the page stays as it is.
function failed({ detail: { ctx } }) {
  const { status } = ctx.response;
  if (status === 422 || ctx.hx.retarget || ctx.hx.reswap) return;
  ctx.hx.reswap = "none";
  if (ctx.hx.trigger?.includes("toast")) return;
  toast(WORDS[status] ?? `The server answered with an error (${status}). It may or may not have been done: look before you repeat it.`, "bad");
}

if (place) {
  document.addEventListener("htmx:response:error", failed);
  document.addEventListener("htmx:error", ({ detail }) => {
    // A part that refetches itself stays quiet: the page already says that it is not live.
    const quiet = detail.ctx?.sourceEvent?.type?.startsWith("live:");
    if (!quiet && !detail.ctx?.response) toast(WORDS[0], "bad");
  });
  document.addEventListener("toast", ({ detail }) => toast(detail.text ?? detail.value, detail.tone));
  place.addEventListener("click", (event) => event.target.closest("[data-dismiss]")?.closest(".toast").remove());
  place.querySelectorAll(".toast:not(.bad)").forEach(leave);
}
