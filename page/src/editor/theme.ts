// How the editor looks. Most colours are those of the page: properties reach into the shadow root.
import { HighlightStyle, syntaxHighlighting } from "@codemirror/language";
import type { Extension } from "@codemirror/state";
import { EditorView } from "@codemirror/view";
import { tags } from "@lezer/highlight";

/** The sheet of the shadow root. The policy of the page allows no style attributes and no style elements. */
export const SHEET = `
:host { display: block; --e-select: #cfe2ff; --e-keyword: #7a1fa2; --e-type: #0b5d73; --e-function: #1a53a8; --e-string: #176b2c; --e-number: #9a3b00;
  --e-chosen: #d9ebf0; --e-match: #ffe8a3; }
@media (prefers-color-scheme: dark) {
  :host { --e-select: #2a4670; --e-keyword: #d3a2f7; --e-type: #7fd3e6; --e-function: #94bfff; --e-string: #8fdc9d; --e-number: #ffb27a;
    --e-chosen: #1d4552; --e-match: #5b4a12; }
}
.frame { border: 1px solid var(--line); border-radius: 6px; overflow: hidden; background: var(--panel); }
.frame:focus-within { border-color: var(--focus); outline: 1px solid var(--focus); }
.keys { margin: 4px 2px 0; color: var(--dim); font-size: 12px; }
.keys[hidden] { display: none; }
@media (max-width: 500px) { .keys { font-size: 11px; } }
`;

const look = EditorView.theme({
  "&": { color: "var(--text)", backgroundColor: "var(--panel)", fontSize: "13px", maxHeight: "min(62vh, 640px)" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.5", minHeight: "160px" },
  ".cm-content": { caretColor: "var(--text)", padding: "8px 0" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  ".cm-gutters": { backgroundColor: "var(--panel)", color: "var(--dim)", borderRight: "1px solid var(--line)" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "color-mix(in srgb, var(--sunk) 55%, transparent)" },
  "&.cm-focused ::selection, ::selection": { backgroundColor: "var(--e-select)" },
  ".cm-matchingBracket, &.cm-focused .cm-matchingBracket": { backgroundColor: "var(--e-match)", color: "inherit" },
  ".cm-lintRange-error": { backgroundImage: "none", textDecoration: "underline wavy var(--bad) 1.5px", textUnderlineOffset: "3px" },
  ".cm-lintRange-warning": { backgroundImage: "none", textDecoration: "underline wavy var(--warn) 1.5px", textUnderlineOffset: "3px" },
  ".cm-lintPoint-error:after": { borderBottomColor: "var(--bad)" },
  ".cm-gutter-lint .cm-gutterElement": { padding: "0 2px" },
  ".cm-lint-marker": { width: "1em", height: "auto", fontWeight: "700" },
  ".cm-lint-marker-error": { content: "normal", color: "var(--bad)" },
  ".cm-lint-marker-error:before": { content: "'✖'" },
  ".cm-lint-marker-warning": { content: "normal", color: "var(--warn)" },
  ".cm-lint-marker-warning:before": { content: "'!'" },
  ".cm-specialChar": { color: "var(--bad)" },
  ".cm-tooltip": { backgroundColor: "var(--panel)", color: "var(--text)", border: "1px solid var(--line)", borderRadius: "4px", maxWidth: "min(600px, 92vw)" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul": { fontFamily: "var(--mono)", maxHeight: "14em" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { backgroundColor: "var(--e-chosen)", color: "var(--text)" },
  ".cm-completionMatchedText": { textDecoration: "none", fontWeight: "700" },
  ".cm-diagnostic": { padding: "4px 8px", whiteSpace: "pre-wrap", overflowWrap: "anywhere" },
  ".cm-diagnostic-error": { borderLeft: "4px solid var(--bad)" },
  ".cm-diagnostic-warning": { borderLeft: "4px solid var(--warn)" },
});

const colours = HighlightStyle.define([
  { tag: tags.keyword, color: "var(--e-keyword)", fontWeight: "600" },
  { tag: [tags.typeName, tags.bool, tags.null], color: "var(--e-type)" },
  { tag: tags.standard(tags.name), color: "var(--e-function)" },
  { tag: tags.string, color: "var(--e-string)" },
  { tag: tags.number, color: "var(--e-number)" },
  { tag: tags.comment, color: "var(--dim)", fontStyle: "italic" },
]);

export const theme: Extension = [look, syntaxHighlighting(colours)];
