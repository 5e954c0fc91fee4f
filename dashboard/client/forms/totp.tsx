/** Turns a second factor on: the QR code, a first code, and the recovery codes, shown once. */
import { useEffect, useState } from "preact/hooks";
import { Dialog, Form } from "../kit/dialog.tsx";
import { CODE, Field, useTexts } from "../kit/fields.tsx";
import { badge, Copy, notice, problem, useAction } from "../kit/elements.tsx";
import { onceKeeper } from "../kit/once.tsx";
import { beginTotp, confirmTotp } from "../state/session.ts";

export const Totp = ({ on }: { readonly on: boolean }) => {
  const [uri, setUri] = useState<string | undefined>(undefined);
  return (
    <section class="card" aria-labelledby="totp">
      <h2 id="totp">Second factor {badge(on ? "on" : "off")}</h2>
      {uri === undefined ? <Begin on={on} begun={setUri} /> : <Confirm uri={uri} confirmed={() => setUri(undefined)} />}
    </section>
  );
};

const Begin = ({ on, begun }: { readonly on: boolean; readonly begun: (uri: string) => void }) => {
  const [{ password, code }, bind] = useTexts({ password: "", code: "" });
  const { run, busy, error } = useAction(async () => begun(await beginTotp(password, on ? code.trim() : undefined)));
  return [
    <p>
      {on
        ? "Your login asks for a code. You can move it to another device; the current one stays valid until the new one is confirmed."
        : "A code from an authenticator app, in addition to the password. Rotating a secret needs it."}
    </p>,
    <Form submit={run}>
      <Field label="Password" {...bind("password")} type="password" autocomplete="current-password" />
      {on && <Field label="Present code" {...bind("code")} {...CODE} />}
      {problem(error)}
      <button type="submit" class="main" disabled={busy}>
        {on ? "Change the second factor" : "Set up a second factor"}
      </button>
    </Form>,
  ];
};

const Confirm = ({ uri, confirmed }: { readonly uri: string; readonly confirmed: () => void }) => {
  const [code, setCode] = useState("");
  const { run, busy, error } = useAction(async () => {
    const show = onceKeeper();
    const codes = await confirmTotp(code.trim());
    show((close) => <Recovery codes={codes} close={close} />);
    confirmed();
  });
  const secret = new URL(uri).searchParams.get("secret") ?? "";
  return [
    <ol class="steps">
      <li>
        Scan this with your authenticator app:
        <Qr text={uri} />
      </li>
      <li>
        Or type the secret in: <code class="wrap">{secret.replaceAll(/(.{4})/g, "$1 ").trim()}</code>{" "}
        <Copy text={secret} what="the secret" />
      </li>
      <li>Then enter the code that it shows.</li>
    </ol>,
    <Form submit={run}>
      <Field label="Code" value={code} change={setCode} focus {...CODE} />
      {problem(error)}
      <button type="submit" class="main" disabled={busy}>
        Turn it on
      </button>
    </Form>,
  ];
};

/** Drawn as rectangles of one path; the library is loaded for this alone. */
const Qr = ({ text }: { readonly text: string }) => {
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
  if (drawn === "failed") return <p class="quiet">The QR code cannot be drawn: reload the page, or go on below.</p>;
  return (
    <svg
      class="qr"
      viewBox={`0 0 ${drawn.size} ${drawn.size}`}
      role="img"
      aria-label="QR code of the secret; it can be typed in instead"
    >
      <rect width={drawn.size} height={drawn.size} fill="#fff" />
      <path d={drawn.path} fill="#000" />
    </svg>
  );
};

const Recovery = ({ codes, close }: { readonly codes: readonly string[]; readonly close: () => void }) => (
  <Dialog title="Keep these codes now">
    {notice("good", <p>Your second factor is on.</p>)}
    <p>
      These codes let you in without your device, each of them once. They are shown now and never again: keep them where
      you keep your passwords.
    </p>
    <ul class="codes">
      {codes.map((one) => (
        <li key={one}>
          <code>{one}</code>
        </li>
      ))}
    </ul>
    <div class="row end">
      <Copy text={codes.join("\n")} what="the recovery codes" />
      <button type="button" class="main" onClick={close}>
        I have kept them
      </button>
    </div>
  </Dialog>
);
