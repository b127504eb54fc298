// Tabs: the arrow keys choose among them.
import type { ComponentChildren } from "preact";
import { useId } from "preact/hooks";

interface TabsProps<T extends string> {
  label: string;
  tabs: readonly (readonly [T, string])[];
  chosen: T;
  onChoose: (tab: T) => void;
  children: ComponentChildren;
}

export function Tabs<T extends string>({ label, tabs, chosen, onChoose, children }: TabsProps<T>) {
  const id = useId();
  const move = (event: KeyboardEvent): void => {
    const at = tabs.findIndex(([tab]) => tab === chosen);
    const last = tabs.length - 1;
    const to = event.key === "ArrowRight" ? (at + 1) % tabs.length : event.key === "ArrowLeft" ? (at + last) % tabs.length : event.key === "Home" ? 0 : event.key === "End" ? last : -1;
    const next = tabs[to];
    if (next === undefined) return;
    event.preventDefault();
    onChoose(next[0]);
    document.getElementById(`${id}-${next[0]}`)?.focus();
  };
  return (
    <div class="stack">
      <div class="tablist" role="tablist" aria-label={label} onKeyDown={move}>
        {tabs.map(([tab, name]) => (
          <button key={tab} id={`${id}-${tab}`} type="button" role="tab" aria-selected={tab === chosen} aria-controls={`${id}-panel`} tabIndex={tab === chosen ? 0 : -1} onClick={() => onChoose(tab)}>{name}</button>
        ))}
      </div>
      <div id={`${id}-panel`} class="stack" role="tabpanel" aria-labelledby={`${id}-${chosen}`}>{children}</div>
    </div>
  );
}
