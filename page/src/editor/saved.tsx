// The list of drafts.
import { useSignal } from "@preact/signals";
import { dateTime } from "../format";
import { shown } from "../shown";
import { Dialog } from "../ui/dialog";
import { Text } from "../ui/text";
import { deleteDraft, type Draft, drafts, saveDraft } from "./drafts";

interface DraftsProps {
  text: string;
  onOpen: (draft: Draft) => void;
  onClose: () => void;
}

export function Drafts({ text, onOpen, onClose }: DraftsProps) {
  const name = useSignal("");
  const said = useSignal("");
  const save = (event: Event): void => {
    event.preventDefault();
    const wanted = name.value.trim();
    said.value = saveDraft(wanted, text) ?? "The draft is saved in this browser.";
    name.value = "";
  };
  const taken = drafts.value.some((draft) => draft.name === name.value.trim());
  return (
    <Dialog title="Drafts" onClose={onClose}>
      <div class="q">
        <form onSubmit={save} class="bar">
          <label>Save the text as <input required maxLength={100} value={name.value} onInput={(event) => (name.value = event.currentTarget.value)} /></label>
          <button type="submit" class="primary" disabled={text.trim() === ""}>{taken ? "Replace" : "Save"}</button>
        </form>
        <p class="said" role="status">{said.value}</p>
        {drafts.value.length === 0 && <p class="empty">There are no drafts. They stay in this browser, as plain text: passwords in a text too.</p>}
        <ul class="plain">
          {drafts.value.map((draft) => (
            <li key={draft.name} class="bar">
              <button type="button" class="link" onClick={() => onOpen(draft)}><Text of={draft.name} max={60} /></button>
              {draft.at_ms > 0 && <small class="dim">{dateTime(draft.at_ms)} UTC</small>}
              <button type="button" class="push" aria-label={`Delete the draft ${shown(draft.name)}`} onClick={() => (said.value = deleteDraft(draft.name) ?? `The draft ${shown(draft.name)} is deleted.`)}>Delete</button>
            </li>
          ))}
        </ul>
      </div>
    </Dialog>
  );
}
