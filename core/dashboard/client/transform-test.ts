/** Tests the transform of a subscription on an event, and shows the body that it makes. */
import { useEffect, useRef, useState } from "preact/hooks";
import { ask, path } from "./api.ts";
import { form } from "./dialog.ts";
import { el, part } from "./dom.ts";
import { choice, errorOf, Field } from "./fields.ts";
import { Copy, notice, problem, showToast, useAction } from "./elements.ts";
import { layOut } from "./payload.ts";
import type { RelayEvent, Subscription, TransformTested } from "./shapes.ts";

const OFFERED = 5;

const Made = part(({ tested }: { readonly tested: TransformTested }) => {
  const { transform, body, error } = tested;
  const result = useRef<HTMLDivElement>(null);
  useEffect(() => result.current?.focus(), [tested]);
  const of = transform === null ? "There is no transform: the event itself is sent." : `${transform} makes this body.`;
  return el.div(
    { ref: result, tabIndex: -1, role: "status" },
    body === null
      ? notice("warn", el.p(null, el.strong(null, "No body. "), error ?? ""))
      : [
          notice("good", el.p(null, of, " ", Copy({ text: body, what: "the body" }))),
          el.pre({ tabIndex: 0, "aria-label": "Body" }, layOut(body)),
        ],
  );
});

/** The tester on the page of a subscription with a transform: any event of the key. */
export const TransformTest = part(({ keyId, one }: { readonly keyId: string; readonly one: Subscription }) => {
  const [eventId, setEventId] = useState("");
  const [newest, setNewest] = useState<readonly RelayEvent[]>([]);
  const [tested, setTested] = useState<TransformTested | undefined>(undefined);
  const offer = useAction(async () => {
    const route = path("/api-keys/{}/events", [keyId], { limit: String(OFFERED) });
    const { data } = await ask<readonly RelayEvent[]>("GET", route);
    setNewest(data);
    if (data.length === 0) showToast("There is no event yet");
    else setEventId(data[0]?.id ?? "");
  });
  const { run, busy, error } = useAction(async () => {
    const route = path("/api-keys/{}/webhooks/{}/transform/test", [keyId, one.id]);
    setTested((await ask<TransformTested>("POST", route, { body: { eventId: eventId.trim() } })).data);
  });
  return el.section(
    { class: "card", "aria-labelledby": "transform-test" },
    el.h2({ id: "transform-test" }, "Test the transform"),
    el.p(null, "Shows the body that it makes of an event. Nothing is sent or changed."),
    form({
      submit: run,
      children: [
        Field({
          label: "Event id to transform",
          value: eventId,
          change: setEventId,
          maxLength: 128,
          error: errorOf(error, "eventId"),
        }),
        newest.length > 0 &&
          choice({
            label: "Newest events to transform",
            value: eventId,
            options: newest.map(({ id, type }) => [id, `${type} …${id.slice(-4)}`] as const),
            change: setEventId,
          }),
        problem(error ?? offer.error),
        el.div(
          { class: "row" },
          el.button(
            { type: "submit", disabled: busy || eventId.trim() === "" },
            busy ? "Running…" : "Run the transform",
          ),
          el.button({ type: "button", disabled: offer.busy, onClick: offer.run }, "Offer events to transform"),
        ),
      ],
    }),
    tested !== undefined && Made({ tested }),
  );
});
