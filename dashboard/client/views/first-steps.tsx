/** The first run of a key: three steps to copy, from nothing to a delivery that has arrived. */
import type { VNode } from "preact";
import { Copy, link } from "../kit/elements.tsx";
import { isPortal } from "../state/page-facts.ts";
import { to } from "../state/route.ts";
import { may } from "../state/token.ts";
import type { OfKey } from "../shapes.ts";

const LISTEN = "relay listen --dir data/listen --secret @data/secret";
/** Shell words: the id of a key has no character that needs quotes. */
const stepsOf = (keyId: string): readonly (readonly [title: string, command: string, more: string])[] => [
  ["Listen", LISTEN, "A receiver on your machine. It prints the line of the config that lets the relay call it."],
  [
    "Subscribe",
    `relay subscriptions create https://127.0.0.1:8443/hook --key ${keyId} --events '*' > data/secret`,
    "Or create one here, with the URL of your own receiver.",
  ],
  [
    "Publish, and look",
    `relay publish deposit:paid --key ${keyId} --data '{"amount":"12.50"}'`,
    "The event appears here by itself, with what the receiver answered.",
  ],
];

export const FirstSteps = ({ keyId }: OfKey): VNode => (
  <section class="card" aria-labelledby="first">
    <h2 id="first">{isPortal ? "No subscription yet" : "Three steps to the first delivery"}</h2>
    <p>A subscription is a URL and the names of the events that are sent there.</p>
    {!isPortal && (
      <ol class="steps">
        {stepsOf(keyId).map(([title, command, more]) => (
          <li key={title}>
            <strong>{title}</strong>
            <div class="secret">
              <code class="wrap">{command}</code>
              <Copy text={command} what={`the command: ${title}`} />
            </div>
            <span class="quiet">{more}</span>
          </li>
        ))}
      </ol>
    )}
    <div class="row">
      {may("change") && link(to(["k", keyId, "subscriptions"], { new: "yes" }), "Create the first one", "button main")}
      {!isPortal && link("docs", "Reference and guides", "button")}
    </div>
  </section>
);
