// Buttons that copy: data-copy="the text", or data-copy-from="selector" within the same figure.
import { toast } from "./toast.js";

document.addEventListener("click", async (event) => {
  const button = event.target.closest?.("[data-copy], [data-copy-from]");
  if (!button) return;
  const source = button.dataset.copyFrom && button.closest("figure, section, .panel")?.querySelector(button.dataset.copyFrom);
  try {
    await navigator.clipboard.writeText(button.dataset.copy ?? source.value ?? source.textContent);
  } catch {
    // Without HTTPS a browser may refuse; a selection lets the reader copy by hand.
    if (source) getSelection().selectAllChildren(source);
    toast("The browser does not let pages copy here. Copy the selected text by hand.", "wait");
    return;
  }
  button.classList.add("done");
  button.title = "Copied";
  setTimeout(() => {
    button.classList.remove("done");
    button.removeAttribute("title");
  }, 1500);
});
