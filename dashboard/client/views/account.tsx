/** Shows the account of the user, with its second factor. */
import { useCell } from "../state/cell.ts";
import { moment } from "../state/format.ts";
import { badge, Button, Card, Copy, line, notice, PageFrame } from "../kit/elements.tsx";
import { hasAccounts } from "../state/page-facts.ts";
import { token } from "../state/token.ts";
import { useEffect, useState } from "preact/hooks";
import { Dialog, SentForm } from "../kit/dialog.tsx";
import { CODE, Field, useForm } from "../kit/fields.tsx";
import { onceKeeper } from "../kit/once.tsx";
import { beginTotp, confirmTotp } from "../state/session.ts";

export const AccountPage = () => {
  const now = useCell(token);
  if (now === undefined) return null;
  const until = moment(new Date(now.expiresAt).toISOString());
  return (
    <PageFrame title="Account">
      <div class="card">
        <dl>
          {line("Logged in as", now.sub)}
          {line("API keys", now.keys === "*" ? "every key" : now.keys.join(", ") || "none")}
          {line("May", now.access === "read" ? "look, and change nothing" : "manage")}
          {line("Token", `until ${until}${hasAccounts ? ", renewed by itself" : ""}`)}
        </dl>
      </div>
      {hasAccounts ? (
        <Totp on={now.amr.includes("mfa")} />
      ) : (
        notice("info", "Your token issuer manages second factors.")
      )}
    </PageFrame>
  );
};

const Totp = ({ on }: { readonly on: boolean }) => {
  const [uri, setUri] = useState<string | undefined>(undefined);
  return (
    <Card id="totp" title={["Second factor ", badge(on ? "on" : "off")]}>
      {uri === undefined ? <Begin on={on} begun={setUri} /> : <Confirm uri={uri} confirmed={() => setUri(undefined)} />}
    </Card>
  );
};

const Begin = ({ on, begun }: { readonly on: boolean; readonly begun: (uri: string) => void }) => {
  const form = useForm({ password: "", code: "" }, async ({ password, code }) =>
    begun(await beginTotp(password, on ? code.trim() : undefined)),
  );
  return [
    <p>
      {on
        ? "Your login asks for a code. You can move it to another device; the current one stays valid until the new one is confirmed."
        : "A code from an authenticator app, in addition to the password. Rotating a secret needs it."}
    </p>,
    <SentForm form={form} yes={on ? "Change the second factor" : "Set up a second factor"}>
      <Field {...form.of("password", "Password")} type="password" autocomplete="current-password" />
      {on && <Field {...form.of("code", "Present code")} {...CODE} />}
    </SentForm>,
  ];
};

const Confirm = ({ uri, confirmed }: { readonly uri: string; readonly confirmed: () => void }) => {
  const form = useForm({ code: "" }, async ({ code }) => {
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
    <SentForm form={form} yes="Turn it on">
      <Field {...form.of("code", "Code")} focus {...CODE} />
    </SentForm>,
  ];
};

/** Draws the code as rectangles of one path; the library is loaded for this alone. */
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
      <Button text="I have kept them" class="main" act={close} />
    </div>
  </Dialog>
);
