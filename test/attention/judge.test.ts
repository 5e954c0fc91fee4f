// What needs attention, by table: from the facts of an endpoint, or of a part of the relay, to state, reason and help.
import { describe, expect, it } from "vitest";
import {
  byWorst,
  type EndpointFacts,
  endpointAttention,
  type FailureGroup,
  partAttention,
} from "../../core/attention/judge.ts";

const NOW = Date.UTC(2026, 10, 26, 12);
const HOUR = 3_600_000;
const DAY = 24 * HOUR;

const group = (more: Partial<FailureGroup> = {}): FailureGroup => ({
  statusCode: 500,
  count: 3,
  first: NOW - HOUR,
  last: NOW - 1_000,
  example: { eventId: "ev:1", ordinal: "0".repeat(26) },
  ...more,
});
const sealed = (createdAt: number, expiresAt?: number) => ({
  version: 1,
  sealed: "",
  createdAt,
  ...(expiresAt !== undefined && { expiresAt }),
});
const sub = (more: Partial<EndpointFacts["sub"]> = {}): EndpointFacts["sub"] => ({
  id: "sub_1",
  status: "active",
  updatedAt: NOW - DAY,
  secrets: [sealed(NOW - 100 * DAY)],
  ...more,
});
const WELL: EndpointFacts = {
  sub: sub(),
  health: { failures: 0 },
  open: false,
  failed: { count: 0, more: false },
  groups: [],
};
const certificate = (notAfter: number) => sub({ clientCertificate: { notAfter } as never });
const rotated = (at: number, ends: number) => sub({ secrets: [sealed(at), sealed(at - DAY, ends)] });
const slow = sub({ rateLimit: { perSecond: 2 } });
const restsUntil = NOW + 540_000;

type Row = readonly [title: string, facts: Partial<EndpointFacts>, found: readonly object[]];
const ROWS: readonly Row[] = [
  ["nothing of one that is well", {}, []],
  ["nothing after two failed attempts", { health: { failures: 2 }, groups: [group({ count: 1 })] }, []],
  [
    "one that is down: when it is tried next, and why",
    { health: { failures: 20, failingSince: NOW - HOUR, restsUntil }, open: true, groups: [group()] },
    [
      {
        state: "down",
        severity: "error",
        reason: "20 attempts in a row have failed, the last one: HTTP 500; the next try is at 2026-11-26T12:09:00.000Z",
        help: "See the log of the receiver: it fails by itself.",
        since: NOW - HOUR,
        nextAttemptAt: restsUntil,
      },
    ],
  ],
  [
    "one that is down on another node",
    { open: true, health: { failures: 0, failingSince: NOW - HOUR } },
    [{ state: "down", reason: "It only fails", since: NOW - HOUR }],
  ],
  [
    "one that fails, by the last failure",
    {
      failed: { count: 1_000, more: true },
      groups: [group({ error: "connect", statusCode: undefined, detail: "nothing listens there" }), group()],
    },
    [
      {
        state: "failing",
        severity: "warning",
        reason: "1000 or more deliveries have failed, the last one: connect: nothing listens there",
        help: "See that the receiver runs, and that host and port of its URL are right. Then replay what has failed.",
        since: NOW - HOUR,
      },
    ],
  ],
  [
    "attempts in a row, before anything has failed for good",
    { health: { failures: 3, failingSince: NOW - 5_000 }, groups: [group({ statusCode: 404, first: NOW - 5_000 })] },
    [
      {
        state: "failing",
        reason: "3 attempts in a row have failed, the last one: HTTP 404",
        help: "Correct the path of its URL.",
        since: NOW - 5_000,
      },
    ],
  ],
  [
    "one that the relay has disabled, and only that",
    {
      sub: sub({ status: "disabled", disabledReason: "endpoint_gone" }),
      open: true,
      failed: { count: 2, more: false },
      groups: [group({ statusCode: 410 })],
    },
    [{ state: "disabled", severity: "error", reason: "The receiver answered 410: it is gone for good" }],
  ],
  [
    "one whose record is damaged",
    { sub: sub({ status: "disabled", disabledReason: "record_damaged" }) },
    [{ state: "disabled", reason: "Its stored record is damaged" }],
  ],
  [
    "nothing of one that a person has disabled",
    { sub: sub({ status: "disabled" }), failed: { count: 9, more: false } },
    [],
  ],
  [
    "order that is held",
    { held: { since: NOW - DAY, newest: NOW - HOUR, waiting: 41 } },
    [
      {
        state: "held",
        severity: "error",
        reason: "A failed delivery holds up the 41 behind it",
        waiting: 41,
        since: NOW - DAY,
      },
    ],
  ],
  [
    "one that waits behind its own rate limit",
    { sub: slow, backlog: { since: NOW - HOUR, waiting: 1_200 } },
    [
      {
        state: "rate_limited",
        severity: "warning",
        reason: "1200 wait behind its own rate limit: at 2 a second they take 10 min",
        since: NOW - HOUR,
        waiting: 1_200,
      },
    ],
  ],
  ["nothing while its rate is a moment behind", { sub: slow, backlog: { since: NOW - 59_000, waiting: 9 } }, []],
  [
    "down before its rate: nothing is sent at all",
    { sub: slow, open: true, backlog: { since: NOW - HOUR, waiting: 9 } },
    [{ state: "down" }],
  ],
  [
    "a certificate that ends soon",
    { sub: certificate(NOW + 13 * DAY) },
    [{ state: "certificate_ending", severity: "warning", endsAt: NOW + 13 * DAY }],
  ],
  [
    "a certificate that has ended",
    { sub: certificate(NOW - 1) },
    [{ severity: "error", reason: "Its client certificate has ended" }],
  ],
  ["no certificate that ends later", { sub: certificate(NOW + 15 * DAY) }, []],
  [
    "a secret in the last quarter of its overlap",
    { sub: rotated(NOW - 3 * HOUR, NOW + HOUR) },
    [{ state: "secret_ending", severity: "warning", endsAt: NOW + HOUR }],
  ],
  ["no secret before that", { sub: rotated(NOW - 2 * HOUR, NOW + 2 * HOUR) }, []],
  ["no secret that has ended", { sub: rotated(NOW - 3 * HOUR, NOW) }, []],
];

describe("an endpoint", () => {
  it.each(ROWS)("shows %s", (_, facts, found) => {
    const items = endpointAttention({ ...WELL, ...facts }, NOW);
    expect(items).toEqual(found.map((one) => expect.objectContaining(one)));
    for (const { help, reason, marks } of items) {
      expect(help).toMatch(/^[A-Z].*\.$/);
      expect(reason).not.toMatch(/\.$/);
      expect(marks.length).toBeGreaterThan(0);
    }
  });

  it("says the words of the last failure once, without the advice that is the help", () => {
    const detail =
      "cannot connect: nothing listens there (ECONNREFUSED …): see that it runs, and that host and port are right";
    const [item] = endpointAttention(
      { ...WELL, open: true, groups: [group({ error: "connect", statusCode: undefined, detail })] },
      NOW,
    );
    expect(item?.reason).toBe("It only fails, the last one: cannot connect: nothing listens there (ECONNREFUSED …)");
  });

  it("is the same while equal failures come, and another when a new kind comes or it begins again", () => {
    const marksOf = (more: Partial<EndpointFacts>) =>
      endpointAttention({ ...WELL, failed: { count: 1, more: false }, open: true, ...more }, NOW)[0]?.marks;
    const health = { failures: 20, failingSince: NOW - HOUR };
    const late = (ms: number) => group({ error: "timeout", statusCode: undefined, detail: `no answer in ${ms} ms` });
    const first = marksOf({ health, groups: [late(10_003)] });
    expect(marksOf({ health: { ...health, failures: 99 }, groups: [late(10_001)] })).toEqual(first);
    expect(marksOf({ health, groups: [group(), late(10_003)] })).not.toEqual(first);
    expect(marksOf({ health: { ...health, failingSince: NOW }, groups: [late(10_003)] })).not.toEqual(first);
  });

  it.each([
    ["dns", undefined],
    ["guard", undefined],
    ["tls", undefined],
    ["timeout", undefined],
    ["reset", undefined],
    ["protocol", undefined],
    ["token", undefined],
    ["transform", undefined],
    [undefined, 301],
    [undefined, 401],
    [undefined, 422],
    [undefined, 429],
    [undefined, 503],
  ] as const)("says what helps against %s %s", (error, statusCode) => {
    const [item] = endpointAttention({ ...WELL, open: true, groups: [group({ error, statusCode })] }, NOW);
    expect(item?.help).toMatch(/^[A-Z].{20,}\.$/);
  });
});

it.each([
  ["source:kafka#2", false, "source_away", "warning"],
  ["transport:nats", true, "transport_away", "error"],
  ["publishing", false, "publishing_refused", "error"],
  ["storage", true, "not_ready", "error"],
  ["auth", true, "not_ready", "error"],
] as const)("a part of the relay that is not ready, %s, needs attention", (part, required, state, severity) => {
  const item = partAttention(part, "is away", required, NOW);
  expect(item).toMatchObject({ state, severity, about: part, reason: "is away", since: NOW });
  expect(item.help).toMatch(/^[A-Z].*\.$/);
});

it("the worst come first, and the oldest of those", () => {
  const items = [
    ...endpointAttention({ ...WELL, sub: certificate(NOW) }, NOW),
    ...endpointAttention({ ...WELL, open: true, health: { failures: 9, failingSince: NOW } }, NOW),
    ...endpointAttention({ ...WELL, open: true, health: { failures: 9, failingSince: NOW - 1 } }, NOW),
  ];
  expect(items.toSorted(byWorst).map(({ state, since }) => [state, since])).toEqual([
    ["down", NOW - 1],
    ["down", NOW],
    ["certificate_ending", undefined],
  ]);
});
