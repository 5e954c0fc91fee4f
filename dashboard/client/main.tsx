/** Starts the page. */
import { render } from "preact";
import { waiting } from "./state/api.ts";
import { App } from "./app.tsx";
import { dropBegun } from "./state/begun.ts";
import { begin, session } from "./state/session.ts";

/** By then the first view has taken what was begun for it. */
const TAKEN_MS = 5_000;

const root = document.getElementById("app");
if (root !== null) {
  let drawn = false;
  // Until there is more to show, the document says all of it: drawing that once more would only take time.
  const draw = (): void => {
    if (drawn) return;
    drawn = true;
    root.textContent = "";
    render(<App />, root);
  };
  session.watch(draw);
  waiting.watch(draw);
  setTimeout(dropBegun, TAKEN_MS);
  void begin();
}
