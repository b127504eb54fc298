// The browser's own dialog: it keeps the focus, and Escape closes it.
import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef } from "preact/hooks";

interface DialogProps {
  title: string;
  onClose: () => void;
  children: ComponentChildren;
  /** False: Escape does nothing, because there is nothing behind the dialog. */
  closable?: boolean;
  wide?: boolean;
}

export function Dialog({ title, onClose, children, closable = true, wide = false }: DialogProps) {
  const element = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const dialog = element.current;
    const before = document.activeElement;
    if (dialog !== null && !dialog.open) dialog.showModal();
    return () => {
      dialog?.close();
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  return (
    <dialog
      ref={element}
      class={wide ? "wide" : ""}
      aria-labelledby={id}
      onCancel={(event) => {
        event.preventDefault();
        if (closable) onClose();
      }}
    >
      <header>
        <h2 id={id}>{title}</h2>
        {closable && <button type="button" class="quiet" aria-label="Close" onClick={onClose}>✕</button>}
      </header>
      {children}
    </dialog>
  );
}
