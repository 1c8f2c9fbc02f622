// CodeMirror over the policy's textarea, which stays the form's field and works without any of this.
// It stands in a shadow root: there its styles are constructed sheets, which the content policy
// allows. What the server says beside the text ([data-mark]) is marked in it; keys and values are
// completed from the vocabulary the server hands out.
import {
  autocompletion, bracketMatching, closeBrackets, closeBracketsKeymap, completionKeymap, defaultKeymap, drawSelection,
  EditorState, EditorView, foldGutter, foldKeymap, highlightActiveLine, highlightActiveLineGutter,
  highlightSelectionMatches, HighlightStyle, history, historyKeymap, indentOnInput, indentUnit, indentWithTab, keymap,
  lineNumbers, lintGutter, lintKeymap, searchKeymap, setDiagnostics, syntaxHighlighting, tags, yaml,
} from "../vendor/codemirror/codemirror.js";

const field = document.getElementById("id_source");
const form = field.form;
const severities = { bad: "error", wait: "warning", plain: "info" };
let words = {};
let isChanged = false;

const colours = HighlightStyle.define([
  { tag: tags.comment, color: "var(--text-3)", fontStyle: "italic" },
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: "var(--accent)" },
  { tag: tags.string, color: "var(--good)" },
  { tag: [tags.number, tags.bool, tags.null, tags.keyword], color: "var(--unsure)" },
  { tag: [tags.separator, tags.punctuation, tags.bracket], color: "var(--text-2)" },
]);
const theme = EditorView.theme({
  "&": { color: "var(--text-1)", background: "var(--surface)", border: "1px solid var(--line-control)", borderRadius: "var(--radius)", maxHeight: "72vh", minHeight: "40vh" },
  "&.cm-focused": { outline: "2px solid var(--accent)", outlineOffset: "1px" },
  ".cm-scroller": { font: "450 12.5px/20px var(--mono)", fontVariantLigatures: "none", overflow: "auto" },
  ".cm-gutters": { background: "var(--raised)", color: "var(--text-3)", borderRight: "1px solid var(--line)" },
  ".cm-activeLine, .cm-activeLineGutter": { background: "color-mix(in srgb, var(--accent-soft) 60%, transparent)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": { background: "light-dark(#cdd6fb, #36427d)" },
  ".cm-cursor": { borderLeftColor: "var(--text-1)" },
  ".cm-tooltip, .cm-panels": { background: "var(--surface)", color: "var(--text-1)", border: "1px solid var(--line-strong)", borderRadius: "var(--radius)", fontFamily: "var(--font)", fontSize: "13px" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { background: "var(--accent)", color: "var(--on-accent)" },
  ".cm-completionLabel": { fontFamily: "var(--mono)" },
  ".cm-completionDetail": { fontStyle: "normal", marginLeft: "12px", opacity: ".8" },
}, { dark: matchMedia("(prefers-color-scheme: dark)").matches });

// The keys opened on a line, such as `command: {program: ls, `, and the one whose value is next.
function opened(text) {
  const around = [];
  let key;
  for (const [token] of text.matchAll(/[\w-]+(?=:(?:\s|$))|[{}[\],]/g)) {
    if (token === "{" || token === "[") {
      around.push({ token, key });
      if (token === "{") key = undefined;
    } else if (token === "}" || token === "]") key = around.pop()?.key;
    else if (token !== ",") key = token;
    else if (around.at(-1)?.token !== "[") key = undefined;
  }
  return { key, within: around.filter(({ token }) => token === "{").map((one) => one.key) };
}

// Where a line's first key or word stands, past the dashes of lists.
const column = (text) => text.match(/^\s*(?:- +)*/)[0].length;

function completions(context) {
  const line = context.state.doc.lineAt(context.pos);
  const before = line.text.slice(0, context.pos - line.from);
  const word = before.match(/[\w.-]*$/)[0];
  if ((!word && !context.explicit) || before.includes("#") || context.state.sliceDoc(0, 1) === "{") return null;
  const { key, within } = opened(before.slice(0, before.length - word.length));
  const path = within.filter(Boolean);
  for (let number = line.number - 1, limit = column(line.text); number > 0 && limit > 0; number--) {
    const above = context.state.doc.line(number).text;
    const name = above.trim() && column(above) < limit && above.match(/^\s*(?:- +)*([\w-]+):/)?.[1];
    if (name) path.unshift(name);
    if (name) limit = column(above);
  }
  let known = words;
  for (const step of path) known = known?.[step]?.keys ?? known?.[step];
  const values = key ? known?.[key]?.values : known?.values;
  const options = values?.map((label) => ({ label, type: "enum" }))
    ?? (key ? [] : Object.entries(known ?? {}).filter(([, one]) => one.about !== undefined)
      .map(([label, one]) => ({ label, detail: one.about, type: "property", apply: `${label}:${one.keys ? "" : " "}` })));
  return options.length ? { from: context.pos - word.length, options, validFor: /^[\w.-]*$/ } : null;
}

const host = document.createElement("div");
const root = host.attachShadow({ mode: "open" });
const view = new EditorView({
  root,
  parent: root,
  doc: field.value,
  extensions: [
    lineNumbers(), foldGutter(), lintGutter(), history(), drawSelection(), indentOnInput(), bracketMatching(), closeBrackets(),
    highlightActiveLine(), highlightActiveLineGutter(), highlightSelectionMatches(), EditorView.lineWrapping,
    indentUnit.of("  "), EditorState.tabSize.of(2), yaml(), syntaxHighlighting(colours), theme,
    autocompletion({ override: [completions], icons: false }),
    keymap.of([...closeBracketsKeymap, ...defaultKeymap, ...searchKeymap, ...historyKeymap, ...foldKeymap, ...completionKeymap, ...lintKeymap, indentWithTab]),
    EditorView.contentAttributes.of({ "aria-label": "Document; Escape and then Tab leaves it", spellcheck: "false" }),
    // Left to itself a browser may put typed text into a styled span, which the content policy reports.
    EditorView.domEventHandlers({ beforeinput: (event, editor) => {
      if (event.inputType !== "insertText" || editor.state.selection.main.empty || /^["'([{]$/.test(event.data)) return false;
      editor.dispatch(editor.state.replaceSelection(event.data), { userEvent: "input.type", scrollIntoView: true });
      event.preventDefault();
      return true;
    } }),
    EditorView.updateListener.of(({ docChanged, state }) => {
      if (!docChanged) return;
      isChanged = true;
      field.value = state.doc.toString();
      field.dispatchEvent(new Event("input", { bubbles: true }));
    }),
  ],
});

const replace = (text) => view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } });

function mark() {
  const { doc } = view.state;
  const marks = [...document.querySelectorAll("#check [data-mark]")].filter(({ dataset }) => dataset.mark > 0 && dataset.mark <= doc.lines);
  view.dispatch(setDiagnostics(view.state, marks.map((item) => {
    const line = doc.line(Number(item.dataset.mark));
    const message = [item.querySelector("[data-said]"), item.querySelector(".hint")].map((one) => one?.textContent.trim()).filter(Boolean).join(". ");
    return { from: line.from + Math.min(column(line.text), line.length), to: line.to, severity: severities[item.dataset.tone], message };
  })));
}

document.addEventListener("click", ({ target }) => {
  const button = target.closest?.("[data-line]");
  if (button) {
    const line = view.state.doc.line(Math.min(Number(button.dataset.line), view.state.doc.lines));
    view.dispatch({ selection: { anchor: line.from, head: line.to }, effects: EditorView.scrollIntoView(line.from, { y: "center" }) });
  }
  if (button || target.closest?.('label[for="id_source"]')) view.focus();
});
document.getElementById("id_upload")?.addEventListener("change", async ({ target }) => {
  const [file] = target.files;
  const text = await file?.text();
  // What is no text is left for the server to refuse in words.
  if (!text || /[\0\ufffd]/.test(text)) return;
  replace(text);
  target.value = "";
});
// Whoever comes back to this page finds in the field what they had typed.
window.addEventListener("pageshow", () => field.value !== view.state.doc.toString() && replace(field.value));
form.addEventListener("keydown", (event) => {
  if (event.key !== "s" || !(event.ctrlKey || event.metaKey)) return;
  event.preventDefault();
  form.requestSubmit(form.querySelector('[value="draft"]'));
}, true);
form.addEventListener("submit", () => (isChanged = false));
window.addEventListener("beforeunload", (event) => isChanged && event.preventDefault());
// The page's own keys are not for what is typed here.
host.addEventListener("keydown", (event) => event.stopPropagation());
document.addEventListener("htmx:after:swap", mark);

field.after(host);
field.hidden = true;
mark();
words = await (await fetch(form.dataset.words)).json();
