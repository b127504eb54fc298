// What the editor is made of, without the component.
import { acceptCompletion, autocompletion, type Completion, type CompletionContext, type CompletionResult, completionKeymap, completionStatus } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentLess, indentMore, insertTab } from "@codemirror/commands";
import { bracketMatching, indentUnit } from "@codemirror/language";
import { type Diagnostic, lintGutter, nextDiagnostic, previousDiagnostic } from "@codemirror/lint";
import { type Extension, Prec } from "@codemirror/state";
import { EditorView, highlightActiveLine, highlightActiveLineGutter, highlightSpecialChars, type KeyBinding, keymap, lineNumbers } from "@codemirror/view";
import { dialect } from "./dialect";
import type { Mark } from "./places";
import { theme } from "./theme";
import { shown, shownLines } from "../shown";

/** Answers what may stand at a place of the text. */
export type Complete = (sql: string, cursor: number, signal: AbortSignal) => Promise<{ from: number; items: string[] }>;

/** Above this size, nothing is sent while the user types. */
export const LARGE = 256 * 1024;

/** Words that are offered at most. */
const OFFERED = 200;
const PAUSE_MS = 120;

export interface Calls {
  change(text: string): void;
  submit(): void;
  cursor(at: number): void;
  complete(): Complete | null;
}

export function extensions(calls: Calls): Extension {
  return [
    lineNumbers(), highlightSpecialChars(), history(), bracketMatching(), highlightActiveLine(), highlightActiveLineGutter(), lintGutter(),
    dialect, theme, indentUnit.of("  "), EditorView.lineWrapping,
    autocompletion({ override: [source(calls)], activateOnTypingDelay: 80, icons: false, maxRenderedOptions: OFFERED }),
    Prec.high(keymap.of([{ key: "Mod-Enter", run: () => (calls.submit(), true) }])),
    keymap.of([...keys, ...completionKeymap, ...defaultKeymap, ...historyKeymap]),
    EditorView.domEventHandlers({ beforeinput: replaceSelection }),
    EditorView.updateListener.of((update) => {
      if (update.docChanged) calls.change(update.state.doc.toString());
      if (update.docChanged || update.selectionSet) calls.cursor(update.state.selection.main.head);
      // Tab leaves the editor only directly after Escape.
      if (update.docChanged || (update.focusChanged && !update.view.hasFocus)) update.view.setTabFocusMode(false);
    }),
  ];
}

/** What is typed over a selection. The browser would give it the colours of the old text by style attributes, which the policy forbids. */
function replaceSelection(event: InputEvent, view: EditorView): boolean {
  const isTyped = event.inputType === "insertText" && event.data !== null && !event.isComposing && !view.composing;
  if (!isTyped || view.state.readOnly || view.state.selection.main.empty) return false;
  event.preventDefault();
  view.dispatch(view.state.replaceSelection(event.data ?? ""), { userEvent: "input.type", scrollIntoView: true });
  return true;
}

/** Tab completes or indents. After Escape it leaves the editor, for as long as nothing is typed. */
const keys: KeyBinding[] = [
  { key: "Tab", run: (view) => !view.state.readOnly && (acceptCompletion(view) || (view.state.selection.main.empty ? insertTab(view) : indentMore(view))) },
  { key: "Shift-Tab", run: (view) => !view.state.readOnly && indentLess(view) },
  {
    key: "Escape",
    run: (view) => {
      if (completionStatus(view.state) === null) view.setTabFocusMode(true);
      return false;
    },
  },
  { key: "F8", run: nextDiagnostic },
  { key: "Shift-F8", run: previousDiagnostic },
];

/** Completion by the server. A newer question, or a change of the text, ends an older one. */
function source(calls: Calls): (context: CompletionContext) => Promise<CompletionResult | null> {
  return async (context) => {
    const complete = calls.complete();
    const isWord = context.matchBefore(/[\p{L}\p{N}_$.'"`]$/u) !== null;
    if (complete === null || context.state.doc.length > LARGE || (!context.explicit && !isWord)) return null;
    const asked = new AbortController();
    context.addEventListener("abort", () => asked.abort(), { onDocChange: true });
    if (!context.explicit) await new Promise((go) => setTimeout(go, PAUSE_MS));
    if (context.aborted || asked.signal.aborted) return null;
    try {
      const answer = await complete(context.state.doc.toString(), context.pos, asked.signal);
      return context.aborted || asked.signal.aborted ? null : resultOf(answer, context.pos);
    } catch {
      // A text can be written without completion. A server that is away is shown by the page.
      return null;
    }
  };
}

function resultOf(answer: { from: number; items: string[] }, cursor: number): CompletionResult | null {
  const from = Number.isInteger(answer.from) ? answer.from : -1;
  if (from < 0 || from > cursor || !Array.isArray(answer.items)) return null;
  const items = answer.items.filter((item) => typeof item === "string" && item !== "").slice(0, OFFERED);
  const options: Completion[] = items.map((item) => ({ label: item, displayLabel: shown(item) }));
  return options.length === 0 ? null : { from, options, validFor: /^[\p{L}\p{N}_$]*$/u };
}

/** The editor's form of marks. */
export function diagnosticsOf(marks: Mark[], length: number): Diagnostic[] {
  return marks.map((mark) => ({
    from: Math.min(mark.from, length),
    to: Math.min(mark.to, length),
    severity: mark.severity,
    message: mark.message,
    renderMessage: () => message(mark),
  }));
}

function message(mark: Mark): HTMLElement {
  const text = document.createElement("span");
  text.textContent = shownLines(mark.message) + (mark.remedy === null ? "" : `\n${shownLines(mark.remedy)}`);
  return text;
}
