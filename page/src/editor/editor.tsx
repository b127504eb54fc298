// A text editor for SQL: CodeMirror in a shadow root, where its styles are adopted sheets, as the policy of the page demands.
import { setDiagnostics } from "@codemirror/lint";
import { Compartment, EditorState, type Extension } from "@codemirror/state";
import { EditorView } from "@codemirror/view";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import type { Mark } from "./places";
import { type Complete, diagnosticsOf, extensions, LARGE } from "./setup";
import { SHEET } from "./theme";

export { LARGE };

export interface EditorProps {
  text: string;
  onChange: (text: string) => void;
  /** Ctrl-Enter. */
  onSubmit?: () => void;
  diagnostics: Mark[];
  complete: Complete | null;
  readOnly: boolean;
  label: string;
  /** A new object moves the cursor there, and gives the editor the focus. */
  selection?: { from: number; to: number } | null;
  /** The cursor is at another place, or the text around it has changed. */
  onCursor?: (at: number) => void;
}

const KEYS = "Tab indents. Escape, then Tab, leaves the editor. Ctrl-Space completes, F8 goes to the next error.";

function attributes(label: string, readOnly: boolean): Extension {
  return [
    EditorState.readOnly.of(readOnly),
    EditorView.contentAttributes.of({ "aria-label": label, "aria-readonly": String(readOnly), "aria-describedby": "keys", spellcheck: "false", tabindex: "0" }),
  ];
}

/** The shadow root's own elements. Returns where the editor goes, and the line with the keys. */
function frame(root: ShadowRoot): { place: HTMLElement; keys: HTMLElement } {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(SHEET);
  root.adoptedStyleSheets = [sheet];
  const [place, keys] = [document.createElement("div"), document.createElement("p")];
  place.className = "frame";
  keys.className = "keys";
  keys.id = "keys";
  keys.textContent = KEYS;
  root.replaceChildren(place, keys);
  return { place, keys };
}

export function Editor(props: EditorProps) {
  const host = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView | null>(null);
  const keys = useRef<HTMLElement | null>(null);
  const changeable = useRef(new Compartment());
  const dark = useRef(new Compartment());
  // The text that the page knows. Another one in the properties comes from outside.
  const known = useRef(props.text);
  const latest = useRef(props);
  latest.current = props;

  useEffect(() => {
    const element = host.current;
    if (element === null) return;
    const root = element.shadowRoot ?? element.attachShadow({ mode: "open" });
    const parts = frame(root);
    keys.current = parts.keys;
    const calls = {
      change: (text: string) => {
        if (known.current === text) return;
        known.current = text;
        latest.current.onChange(text);
      },
      submit: () => latest.current.onSubmit?.(),
      cursor: (at: number) => latest.current.onCursor?.(at),
      complete: () => latest.current.complete,
    };
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    const { label, readOnly, text } = latest.current;
    known.current = text;
    const made = new EditorView({
      parent: parts.place,
      root,
      state: EditorState.create({
        doc: text,
        extensions: [extensions(calls), changeable.current.of(attributes(label, readOnly)), dark.current.of(EditorView.darkTheme.of(scheme.matches))],
      }),
    });
    view.current = made;
    const follow = () => made.dispatch({ effects: dark.current.reconfigure(EditorView.darkTheme.of(scheme.matches)) });
    scheme.addEventListener("change", follow);
    return () => {
      scheme.removeEventListener("change", follow);
      made.destroy();
      view.current = null;
    };
  }, []);

  useEffect(() => {
    if (keys.current !== null) keys.current.hidden = props.readOnly;
    view.current?.dispatch({ effects: changeable.current.reconfigure(attributes(props.label, props.readOnly)) });
  }, [props.label, props.readOnly]);

  // At once: an effect that runs later could take what was typed before for a text from outside.
  useLayoutEffect(() => {
    if (view.current === null || props.text === known.current) return;
    known.current = props.text;
    const { doc } = view.current.state;
    // One step of the history, so that it can be taken back.
    if (doc.toString() !== props.text) view.current.dispatch({ changes: { from: 0, to: doc.length, insert: props.text } });
  }, [props.text]);

  useEffect(() => {
    const made = view.current;
    if (made !== null) made.dispatch(setDiagnostics(made.state, diagnosticsOf(props.diagnostics, made.state.doc.length)));
  }, [props.diagnostics]);

  useEffect(() => {
    const made = view.current;
    if (made === null || props.selection === null || props.selection === undefined) return;
    const end = made.state.doc.length;
    made.dispatch({ selection: { anchor: Math.min(props.selection.from, end), head: Math.min(props.selection.to, end) }, scrollIntoView: true });
    made.focus();
  }, [props.selection]);

  return <div ref={host} class="sql-editor" />;
}
