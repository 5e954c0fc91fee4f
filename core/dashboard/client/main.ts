/** Starts the page. */
import { render } from "preact";
import { App } from "./app.ts";
import { begin } from "./session.ts";

const root = document.getElementById("app");
if (root !== null) {
  root.textContent = "";
  render(App({}), root);
  void begin();
}
