// Screens that are loaded when they are first opened.
import type { ComponentType } from "preact";
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { checkServer } from "../server";
import { Loading } from "./error";

export function lazy<P extends object>(load: () => Promise<{ default: ComponentType<P> }>): ComponentType<P> {
  let Loaded: ComponentType<P> | null = null;
  return function Lazy(props: P) {
    const state = useSignal<"loading" | "there" | "failed">(Loaded === null ? "loading" : "there");
    useEffect(() => {
      if (Loaded !== null) return;
      load().then(
        (part) => {
          Loaded = part.default;
          state.value = "there";
        },
        () => {
          state.value = "failed";
          // After an upgrade the server has other files: then the page is loaded again.
          checkServer().catch(() => undefined);
        },
      );
    }, []);
    if (state.value === "there" && Loaded !== null) return <Loaded {...props} />;
    if (state.value === "loading") return <Loading what="the screen" />;
    return (
      <div class="error" role="alert">
        <p class="error-what">This part of the page cannot be loaded.</p>
        <button type="button" onClick={() => location.reload()}>Load the page again</button>
      </div>
    );
  };
}
