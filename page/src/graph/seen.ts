// Parts of a large graph that are out of sight are not kept up to date: with 200 stages that is most of the work of an update.
import { type ReadonlySignal, type Signal, useComputed, useSignal } from "@preact/signals";
import { createContext, type RefObject } from "preact";
import { useContext, useEffect, useRef } from "preact/hooks";

export class Sight {
  private readonly signals = new Map<Element, Signal<boolean>>();
  private observer: IntersectionObserver | null = null;

  /** Begins to watch. Parts that were added before are watched too. */
  begin(pane: Element): void {
    this.observer = new IntersectionObserver(
      (entries) => {
        for (const entry of entries) {
          const seen = this.signals.get(entry.target);
          if (seen !== undefined) seen.value = entry.isIntersecting;
        }
      },
      { root: pane, rootMargin: "150px" },
    );
    for (const element of this.signals.keys()) this.observer.observe(element);
  }

  end(): void {
    this.observer?.disconnect();
    this.observer = null;
  }

  add(element: Element, seen: Signal<boolean>): void {
    this.signals.set(element, seen);
    this.observer?.observe(element);
  }

  remove(element: Element): void {
    this.signals.delete(element);
    this.observer?.unobserve(element);
  }
}

export const SightContext = createContext<Sight | null>(null);

/** Whether the element can be seen; true until that is known. */
export function useSeen<T extends Element>(): [RefObject<T | null>, ReadonlySignal<boolean>] {
  const element = useRef<T>(null);
  const seen = useSignal(true);
  const sight = useContext(SightContext);
  useEffect(() => {
    const present = element.current;
    if (present === null || sight === null) return;
    sight.add(present, seen);
    return () => sight.remove(present);
  }, [sight]);
  return [element, seen];
}

/** A value that follows what it is computed from while it can be seen, and else stays. */
export function useWhileSeen<T>(seen: ReadonlySignal<boolean>, of: () => T): ReadonlySignal<T> {
  const last = useRef<{ value: T } | null>(null);
  return useComputed(() => {
    if (seen.value || last.current === null) last.current = { value: of() };
    return last.current.value;
  });
}
