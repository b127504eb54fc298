// Screens that are loaded when they are first opened.
import type { ComponentType } from "preact";
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { checkServer } from "../server";
import { Loading } from "./error";

/** Pause before a part that could not be loaded is asked for again: the server may only be away. */
const AGAIN_MS = 2000;

export function lazy<P extends object>(load: () => Promise<{ default: ComponentType<P> }>): ComponentType<P> {
  let Loaded: ComponentType<P> | null = null;
  return function Lazy(props: P) {
    const state = useSignal<"loading" | "there" | "failed">(Loaded === null ? "loading" : "there");
    useEffect(() => {
      if (Loaded !== null) return;
      let isOpen = true;
      let timer: ReturnType<typeof setTimeout> | undefined;
      const attempt = (): void => {
        load().then(
          (part) => {
            Loaded = part.default;
            state.value = "there";
          },
          () => {
            state.value = "failed";
            // After an upgrade the server has other files: then the page is loaded again.
            checkServer().catch(() => undefined);
            if (isOpen) timer = setTimeout(attempt, AGAIN_MS);
          },
        );
      };
      attempt();
      return () => {
        isOpen = false;
        clearTimeout(timer);
      };
    }, []);
    if (state.value === "there" && Loaded !== null) return <Loaded {...props} />;
    if (state.value === "loading") return <Loading what="the screen" />;
    return (
      <div class="error" role="alert">
        <p class="error-what">This part of the page cannot be loaded. The page tries it again.</p>
        <button type="button" onClick={() => location.reload()}>Load the page again</button>
      </div>
    );
  };
}
