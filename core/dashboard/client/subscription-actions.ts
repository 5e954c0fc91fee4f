/** Confirms and runs the actions on a subscription that need a second thought: rotating its secret, and deleting it. */
import { useState } from "preact/hooks";
import { ask, path } from "./api.ts";
import { Dialog, form } from "./dialog.ts";
import { el, line, part } from "./dom.ts";
import { Field, Select } from "./fields.ts";
import { hostOf } from "./format.ts";
import { notice, problem, showToast, useAction } from "./elements.ts";
import { goFromHere } from "./route.ts";
import { secretKeeper } from "./secret.ts";
import type { Glance, Secreted, Subscription } from "./shapes.ts";

interface RotateProps {
  readonly keyId: string;
  readonly one: Subscription;
  readonly close: () => void;
}

const OVERLAPS = [
  ["86400", "1 day (recommended)"],
  ["3600", "1 hour"],
  ["604800", "7 days"],
  ["0", "none: the old secret ends now"],
] as const;

export const Rotate = part(({ keyId, one, close }: RotateProps) => {
  const [overlap, setOverlap] = useState<string>(OVERLAPS[0][0]);
  const { run, busy, error } = useAction(async (wanted) => {
    const show = secretKeeper();
    const body = { overlapSeconds: Number(overlap) };
    const { data } = await ask<Secreted>("POST", path("/api-keys/{}/webhooks/{}/rotate-secret", [keyId, one.id]), {
      body,
      wanted,
    });
    show(data);
    close();
  });
  return Dialog({
    title: "Rotate the secret",
    close,
    children: form({
      submit: run,
      children: [
        el.p(
          null,
          "A new secret is made and shown once. During the overlap both secrets sign each delivery, so that you can put the new one in place without losing any.",
        ),
        Select({ label: "Overlap", value: overlap, options: OVERLAPS, change: setOverlap }),
        overlap === "0" &&
          notice("warn", "Receivers that still verify with the old secret refuse every delivery from now on."),
        problem(error),
        el.div(
          { class: "row end" },
          el.button({ type: "button", onClick: close }, "Cancel"),
          el.button({ type: "submit", class: "main", disabled: busy }, busy ? "One moment…" : "Rotate"),
        ),
      ],
    }),
  });
});

export const Disable = part(({ keyId, one, close, done }: DisableProps) => {
  const { run, busy, error } = useAction(async (wanted) => {
    await ask("PATCH", path("/api-keys/{}/webhooks/{}", [keyId, one.id]), { body: { status: "disabled" }, wanted });
    showToast("Disabled");
    done();
  });
  const { backlog } = one.figures;
  const many = backlog >= 1_000 ? "1,000 deliveries or more" : backlog === 1 ? "1 delivery" : `${backlog} deliveries`;
  return Dialog({
    title: "Disable this subscription?",
    close,
    children: form({
      submit: run,
      children: [
        el.p(
          null,
          backlog === 0 ? "No delivery is pending now." : `What is pending now, ${many}, ends as failed.`,
          " Nothing is sent while it is disabled, and new events that match are kept as failed.",
        ),
        el.p(null, "Enabling it again resumes nothing by itself: replay then what failed."),
        problem(error),
        el.div(
          { class: "row end" },
          el.button({ type: "button", onClick: close }, "Keep it active"),
          el.button({ type: "submit", class: "danger", disabled: busy }, busy ? "One moment…" : "Disable it"),
        ),
      ],
    }),
  });
});

interface DisableProps {
  readonly keyId: string;
  readonly one: Glance;
  readonly close: () => void;
  readonly done: () => void;
}

export const DeleteSubscription = part(({ keyId, one, close }: RotateProps) => {
  const [typed, setTyped] = useState("");
  const name = hostOf(one.url);
  const { run, busy, error } = useAction(async (wanted) => {
    if (typed.trim() !== name) throw new Error(`Type ${name} to confirm.`);
    const leave = goFromHere();
    await ask("DELETE", path("/api-keys/{}/webhooks/{}", [keyId, one.id]), { wanted });
    showToast("Deleted");
    leave(["k", keyId, "subscriptions"]);
  });
  return Dialog({
    title: "Delete this subscription?",
    close,
    children: form({
      submit: run,
      children: [
        notice("bad", el.p(null, "Deliveries under way are cancelled, pending ones too. This cannot be undone.")),
        // Several may have the same host.
        el.dl(
          null,
          line("URL", one.url),
          one.description !== undefined && line("Description", one.description),
          line("Id", el.code(null, one.id)),
        ),
        Field({ label: `Type ${name} to confirm`, value: typed, change: setTyped, focus: true }),
        problem(error),
        el.div(
          { class: "row end" },
          el.button({ type: "button", onClick: close }, "Keep it"),
          el.button(
            { type: "submit", class: "danger", disabled: busy || typed.trim() !== name },
            busy ? "Deleting…" : "Delete for ever",
          ),
        ),
      ],
    }),
  });
});
