/** Turns a second factor on: the QR code, a first code, and the recovery codes, shown once. */
import { useEffect, useState } from "preact/hooks";
import { Dialog, form } from "./dialog.ts";
import { el, part } from "./dom.ts";
import { CODE, Field, useTexts } from "./fields.ts";
import { badge, Copy, notice, problem, useAction } from "./elements.ts";
import { onceKeeper } from "./once.ts";
import { beginTotp, confirmTotp } from "./session.ts";

export const Totp = part(({ on }: { readonly on: boolean }) => {
  const [uri, setUri] = useState<string | undefined>(undefined);
  return el.section(
    { class: "card", "aria-labelledby": "totp" },
    el.h2({ id: "totp" }, "Second factor ", badge(on ? "on" : "off")),
    uri === undefined ? Begin({ on, begun: setUri }) : Confirm({ uri, confirmed: () => setUri(undefined) }),
  );
});

const Begin = part(({ on, begun }: { readonly on: boolean; readonly begun: (uri: string) => void }) => {
  const [{ password, code }, bind] = useTexts({ password: "", code: "" });
  const { run, busy, error } = useAction(async () => begun(await beginTotp(password, on ? code.trim() : undefined)));
  return [
    el.p(
      null,
      on
        ? "Your login asks for a code. You can move it to another device; the current one stays valid until the new one is confirmed."
        : "A code from an authenticator app, in addition to the password. Rotating a secret needs it.",
    ),
    form({
      submit: run,
      children: [
        Field({ label: "Password", ...bind("password"), type: "password", autocomplete: "current-password" }),
        on && Field({ label: "Present code", ...bind("code"), ...CODE }),
        problem(error),
        el.button(
          { type: "submit", class: "main", disabled: busy },
          on ? "Change the second factor" : "Set up a second factor",
        ),
      ],
    }),
  ];
});

const Confirm = part(({ uri, confirmed }: { readonly uri: string; readonly confirmed: () => void }) => {
  const [code, setCode] = useState("");
  const { run, busy, error } = useAction(async () => {
    const show = onceKeeper();
    const codes = await confirmTotp(code.trim());
    show((close) => Recovery({ codes, close }));
    confirmed();
  });
  const secret = new URL(uri).searchParams.get("secret") ?? "";
  return [
    el.ol(
      { class: "steps" },
      el.li(null, "Scan this with your authenticator app:", Qr({ text: uri })),
      el.li(
        null,
        "Or type the secret in: ",
        el.code({ class: "wrap" }, secret.replaceAll(/(.{4})/g, "$1 ").trim()),
        " ",
        Copy({ text: secret, what: "the secret" }),
      ),
      el.li(null, "Then enter the code that it shows."),
    ),
    form({
      submit: run,
      children: [
        Field({ label: "Code", value: code, change: setCode, focus: true, ...CODE }),
        problem(error),
        el.button({ type: "submit", class: "main", disabled: busy }, "Turn it on"),
      ],
    }),
  ];
});

/** Drawn as rectangles of one path; the library is loaded for this alone. */
const Qr = part(({ text }: { readonly text: string }) => {
  const [drawn, set] = useState<{ readonly size: number; readonly path: string } | "failed" | undefined>(undefined);
  useEffect(() => {
    const draw = async (): Promise<void> => {
      const { encode } = await import("uqr");
      const { size, data } = encode(text, { border: 4 });
      const path = data.flatMap((row, y) => row.map((dark, x) => (dark ? `M${x} ${y}h1v1h-1z` : ""))).join("");
      set({ size, path });
    };
    draw().catch(() => set("failed"));
  }, [text]);
  if (drawn === undefined) return null;
  if (drawn === "failed")
    return el.p({ class: "quiet" }, "The QR code cannot be drawn: reload the page, or go on below.");
  return el.svg(
    {
      class: "qr",
      viewBox: `0 0 ${drawn.size} ${drawn.size}`,
      role: "img",
      "aria-label": "QR code of the secret; it can be typed in instead",
    },
    el.rect({ width: drawn.size, height: drawn.size, fill: "#fff" }),
    el.path({ d: drawn.path, fill: "#000" }),
  );
});

const Recovery = part(({ codes, close }: { readonly codes: readonly string[]; readonly close: () => void }) =>
  Dialog({
    title: "Keep these codes now",
    children: [
      notice("good", el.p(null, "Your second factor is on.")),
      el.p(
        null,
        "These codes let you in without your device, each of them once. They are shown now and never again: keep them where you keep your passwords.",
      ),
      el.ul({ class: "codes" }, ...codes.map((one) => el.li({ key: one }, el.code(null, one)))),
      el.div(
        { class: "row end" },
        Copy({ text: codes.join("\n"), what: "the recovery codes" }),
        el.button({ type: "button", class: "main", onClick: close }, "I have kept them"),
      ),
    ],
  }),
);
