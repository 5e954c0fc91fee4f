/** Where the page begins. */
import { render } from "preact";
import { App } from "./app.ts";
import { begin } from "./session.ts";

const root = document.getElementById("app");
if (root !== null) {
  void begin().then(() => {
    root.textContent = "";
    render(App({}), root);
  });
}
