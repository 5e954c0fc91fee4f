/** Shows a secret once: it is nowhere else in clear text, and gone when this is closed. */
import { useState } from "preact/hooks";
import { Dialog } from "./dialog.ts";
import { el, part } from "./dom.ts";
import { moment } from "./format.ts";
import { nameOf } from "./api-keys.ts";
import { Copy, notice } from "./elements.ts";
import { onceKeeper } from "./once.ts";
import type { Secreted } from "./shapes.ts";
import { VerifyCode } from "./verify-code.ts";

/** Call it before the request that makes a secret. What it returns shows the secret, wherever the user is by then. */
export function secretKeeper(): (made: Secreted) => void {
  const show = onceKeeper();
  return (made) => show((close) => SecretOnce({ made, close }));
}

const SecretOnce = part(({ made, close }: { readonly made: Secreted; readonly close: () => void }) => {
  const [kept, setKept] = useState(false);
  const { previousSecretExpiresAt: until, warnings = [] } = made;
  return Dialog({
    title: "Keep this secret now",
    // For the code.
    wide: true,
    children: [
      notice(
        "warn",
        el.p(
          null,
          el.strong(null, "It is shown only this once."),
          " The relay keeps it encrypted and never shows it again. If it is lost, rotate it.",
        ),
      ),
      el.p(
        null,
        "Receivers verify with it that a delivery to ",
        el.strong(null, nameOf(made)),
        " comes from this relay.",
      ),
      el.div(
        { class: "secret" },
        el.code({ class: "wrap" }, made.secret),
        Copy({ text: made.secret, what: "the secret" }),
      ),
      VerifyCode({}),
      until !== undefined &&
        el.p(
          null,
          until === null
            ? "The old secret no longer signs."
            : `The old secret also signs until ${moment(until)}: install the new one before then.`,
        ),
      warnings.length > 0 && notice("warn", ...warnings.map((text) => el.p({ key: text }, `${text}.`))),
      el.label(
        { class: "check" },
        el.input({ type: "checkbox", checked: kept, onChange: () => setKept(!kept) }),
        "I have stored it in a safe place",
      ),
      el.div(
        { class: "row end" },
        el.button({ type: "button", class: "main", disabled: !kept, onClick: close }, "Done"),
      ),
    ],
  });
});
