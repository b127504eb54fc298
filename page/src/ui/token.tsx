// The form for the token. It opens when the server refuses a request for want of one.
import { useRef } from "preact/hooks";
import { giveToken, tokenForm } from "../api";
import { Dialog } from "./dialog";

export function TokenForm() {
  const field = useRef<HTMLInputElement>(null);
  const form = tokenForm.value;
  if (form === null) return null;
  const submit = (event: Event): void => {
    event.preventDefault();
    const token = field.current?.value.trim() ?? "";
    if (token !== "") giveToken(token);
  };
  return (
    <Dialog title="Token" closable={false} onClose={() => undefined}>
      <form onSubmit={submit}>
        {form.wrong && <p class="error-what" role="alert">The server does not take this token.</p>}
        <p>This server asks for its token. It is in the file that was given with <code>--token-file</code>. The page keeps it until this tab is closed.</p>
        <label>Token <input ref={field} type="password" name="token" autocomplete="off" required autofocus /></label>
        <footer><button type="submit" class="primary">Continue</button></footer>
      </form>
    </Dialog>
  );
}
