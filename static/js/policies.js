// A problem's line number selects that line in the text.
document.addEventListener("click", (event) => {
  const button = event.target.closest?.("[data-line]");
  const text = button && document.getElementById("id_source");
  if (!text) return;
  const lines = text.value.split("\n");
  const at = Number(button.dataset.line) - 1;
  const start = lines.slice(0, at).join("\n").length + (at > 0 ? 1 : 0);
  text.focus();
  text.setSelectionRange(start, start + lines[at].length);
  text.scrollTop = (at - 4) * parseFloat(getComputedStyle(text).lineHeight);
});
