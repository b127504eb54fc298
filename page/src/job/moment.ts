import { past } from "../past";
import { href, route } from "../route";

/** The screens show now again, also if the address names a moment. */
export function backToNow(): void {
  past.value = null;
  if (route.peek().query.has("at")) location.hash = href(route.peek().parts);
}
