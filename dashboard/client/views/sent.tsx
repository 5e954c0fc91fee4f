/** Shows the request of an attempt, byte for byte, explains its signature, and makes it again from a typed secret. */
import { useEffect, useState } from "preact/hooks";
import { Field } from "../kit/fields.tsx";
import { Copy, notice } from "../kit/elements.tsx";
import { repeatedHeaders, userAgent } from "../state/page-facts.ts";
import type { Attempt, RelayEvent, Subscription } from "../shapes.ts";

/** Returns the original text of `data` in an answer: writing it again would change numbers and order. */
export function rawData(answer: string): string {
  const mark = ',"data":';
  const rest = answer.slice(answer.indexOf(mark) + mark.length);
  let depth = 0;
  for (const { 0: token, index } of rest.matchAll(/"(?:[^"\\]|\\.)*"|[[\]{},]/g)) {
    if (token === "{" || token === "[") depth++;
    else if (token === "}" || token === "]") depth--;
    if (depth < 0 || (depth === 0 && token === ",")) return rest.slice(0, index);
  }
  return rest;
}

interface SentProps {
  readonly event: RelayEvent;
  readonly data: string;
  readonly attempt: Attempt;
  readonly sub: Subscription | undefined;
}

const bodyOf = ({ id, type, keyId, createdAt }: RelayEvent, data: string): string =>
  `{"id":"${id}","type":"${type}","keyId":"${keyId}","createdAt":"${createdAt}","data":${data}}`;

/** Loaded when it is opened: there may be many of them. */
export const WhatWasSent = (props: SentProps) => {
  const [open, setOpen] = useState(false);
  const toggled = (event: Event): void => setOpen((event.currentTarget as HTMLDetailsElement).open);
  const { transform, error } = props.attempt;
  if (error === "transform") return null;
  return (
    <details class="sent" onToggle={toggled}>
      <summary>What was sent</summary>
      {open && (transform === undefined ? Request(props) : <Transformed name={transform} />)}
    </details>
  );
};

/** The body that was sent is kept nowhere. */
const Transformed = ({ name }: { readonly name: string }) => (
  <p>
    The transform <code>{name}</code> made the body from the event. What it made is not kept; it was signed as it was
    sent.
  </p>
);

const text = new TextEncoder();
const base64 = (bytes: ArrayBuffer): string => btoa(String.fromCharCode(...new Uint8Array(bytes)));
const hex = (bytes: ArrayBuffer): string =>
  [...new Uint8Array(bytes)].map((one) => one.toString(16).padStart(2, "0")).join("");

async function hmac(key: Uint8Array<ArrayBuffer>, message: string): Promise<ArrayBuffer> {
  const made = await crypto.subtle.importKey("raw", key, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  return crypto.subtle.sign("HMAC", made, text.encode(message));
}

interface Signed {
  readonly hex: string;
  readonly standard: string;
}

async function sign(secret: string, id: string, timestamp: string, body: string): Promise<Signed | undefined> {
  try {
    const decoded = Uint8Array.from(atob(secret.replace(/^whsec_/, "")), (c) => c.charCodeAt(0));
    const [own, standard] = await Promise.all([
      hmac(text.encode(secret), body),
      hmac(decoded, `${id}.${timestamp}.${body}`),
    ]);
    return { hex: hex(own), standard: `v1,${base64(standard)}` };
  } catch {
    return undefined;
  }
}

const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;

/** Returns a command that makes the request again. It has no header whose value the page does not know. */
function curlOf(url: string | undefined, headers: Headers, body: string): string | undefined {
  if (url === undefined) return undefined;
  const known = headers.filter(([name, value]) => !value.startsWith("(") && !/^(?:host|content-length)$/.test(name));
  const lines = known.map(([name, value]) => `-H ${quoted(`${name}: ${value}`)}`);
  return [`curl -X POST ${quoted(url)}`, ...lines, `--data-raw ${quoted(body)}`].join(" \\\n  ");
}

const HIDDEN = "(its value is not shown)";

/** Returns the digest of a body, and its signatures once a secret is given. */
function useSignatures(id: string, timestamp: string, body: string, secret: string) {
  const [digest, setDigest] = useState<string | undefined>(undefined);
  const [signed, setSigned] = useState<Signed | undefined>(undefined);
  useEffect(() => {
    if (able) void crypto.subtle.digest("SHA-256", text.encode(body)).then((bytes) => setDigest(base64(bytes)));
  }, [body]);
  useEffect(() => {
    let over = false;
    void (secret === "" ? Promise.resolve(undefined) : sign(secret.trim(), id, timestamp, body)).then((made) => {
      if (!over) setSigned(made);
    });
    return () => {
      over = true;
    };
  }, [secret, body]);
  return { digest, signed };
}
/** Browsers offer cryptography only to HTTPS and loopback. */
const able = isSecureContext;

type Headers = readonly (readonly [name: string, value: string])[];

const Request = ({ event, data, attempt, sub }: SentProps) => {
  const [secret, setSecret] = useState("");
  const body = bodyOf(event, data);
  const timestamp = String(Math.floor(Date.parse(attempt.startedAt) / 1_000));
  const { digest, signed } = useSignatures(event.id, timestamp, body, secret);
  const url = sub !== undefined && URL.canParse(sub.url) ? new URL(sub.url) : undefined;
  const own = Object.keys(sub?.headers ?? {}).map((name) => [name.toLowerCase(), HIDDEN] as const);
  const sent: Headers = [
    ["host", url?.host ?? "(of the subscription’s URL)"],
    ...own,
    ["Content-Type", "application/json"],
    ...(own.some(([name]) => name === "accept") ? [] : [["Accept", "*/*"] as const]),
    ["Accept-Encoding", "identity"],
    ["User-Agent", userAgent],
    ["X-Relay-Webhook-Signature", signed?.hex ?? "(64 hex digits)"],
    ["webhook-id", event.id],
    ["webhook-timestamp", timestamp],
    ["webhook-signature", signed?.standard ?? "(v1,… in base64)"],
    ["X-Relay-Event", event.type],
    ["X-Relay-Attempt", String(attempt.number)],
    ["Content-Digest", digest === undefined ? "(SHA-256 of the body)" : `sha-256=:${digest}:`],
    ...(attempt.cycle > 0 ? [["X-Relay-Replay", String(attempt.cycle)] as const] : []),
  ];
  const again = repeatedHeaders.flatMap(([name, of]) =>
    sent.filter(([one]) => one === of).map(([, value]) => [name, value] as const),
  );
  const headers: Headers = [...sent, ...again, ["content-length", String(text.encode(body).length)]];
  const target = url === undefined ? "(path of the subscription’s URL)" : url.pathname + url.search;
  const lines = [`POST ${target} HTTP/1.1`, ...headers.map(([name, value]) => `${name}: ${value}`), "", body];
  const whole = lines.join("\n");
  const curl = curlOf(sub?.url, headers, body);
  return (
    <div class="request">
      <pre tabIndex={0} aria-label="The request">
        {whole}
      </pre>
      <div class="row">
        <Copy text={body} what="the body" named />
        <Copy text={whole} what="the request" named />
        {curl !== undefined && <Copy text={curl} what="as curl" named />}
      </div>
      <Explained secret={secret} change={setSecret} isWrong={secret !== "" && signed === undefined} />
      <p class="quiet">
        URL and headers are the subscription’s current ones. A <code>traceparent</code> is passed on if the event was
        published with one.
      </p>
    </div>
  );
};

interface ExplainedProps {
  readonly secret: string;
  readonly change: (secret: string) => void;
  readonly isWrong: boolean;
}

const Explained = ({ secret, change, isWrong }: ExplainedProps) => (
  <details>
    <summary>The signatures explained</summary>
    <ul>
      <li>
        <code>X-Relay-Webhook-Signature</code> is the HMAC-SHA256 of the raw body in lower-case hex. Its key is the
        whole secret as text, <code>whsec_</code> and all.
      </li>
      <li>
        <code>webhook-signature</code> follows Standard Webhooks: the HMAC-SHA256 of{" "}
        <code>webhook-id.webhook-timestamp.body</code> in base64. Its key is what the part behind <code>whsec_</code>{" "}
        decodes to.
      </li>
      <li>
        While an old secret overlaps, <code>X-Relay-Webhook-Signature-Previous</code> and a second <code>v1,…</code> are
        made with it.
      </li>
      <li>
        Verify the bytes as they came, before parsing them, and compare in constant time. Refuse a timestamp that is
        more than five minutes off, and an id that was seen before.
      </li>
    </ul>
    {able ? (
      <Field
        label="Make them again with your secret"
        value={secret}
        change={change}
        type="password"
        placeholder="whsec_…"
        hint="It stays in this page: nothing is sent. The headers above then show what the receiver got, if it is the secret that signed."
      />
    ) : (
      notice("info", "Open this page by HTTPS to make the signatures again with your secret.")
    )}
    {isWrong && notice("warn", "This is not a secret of the relay: it must begin with whsec_.")}
  </details>
);
