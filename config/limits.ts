/** The limits tables, as data: requests per minute and per 5 s, by `METHOD /path/{param}`. */
import type { LimitRow, LimitRows } from "../core/ports/plan.ts";

const row = (perMinute: number, per5s: number): LimitRow => ({ perMinute, per5s });

const HOOKS = "/api-keys/{keyId}/webhooks";
const HOOK = `${HOOKS}/{subscriptionId}`;

const WEBHOOKS = {
  [`POST ${HOOKS}`]: row(15, 3),
  [`GET ${HOOKS}`]: row(30, 5),
  [`PATCH ${HOOK}`]: row(15, 3),
  [`DELETE ${HOOK}`]: row(10, 3),
  [`POST ${HOOKS}/{id}/rotate-secret`]: row(10, 3),
} satisfies LimitRows;

const MANAGEMENT = {
  "GET /api-keys": row(60, 10),
  "DELETE /api-keys/{keyId}": row(10, 3),
  "GET /event-types": row(60, 10),
  "GET /event-types/{eventType}": row(60, 10),
  "GET /transforms": row(60, 10),
  [`GET ${HOOK}`]: row(60, 10),
  [`POST ${HOOK}/test`]: row(10, 3),
  [`POST ${HOOK}/filter/test`]: row(60, 10),
  [`POST ${HOOK}/transform/test`]: row(30, 5),
  [`GET ${HOOK}/deliveries`]: row(60, 10),
  [`POST ${HOOK}/replay`]: row(10, 3),
  [`GET ${HOOK}/order`]: row(60, 10),
  [`POST ${HOOK}/skip`]: row(10, 3),
  "GET /api-keys/{keyId}/events": row(60, 10),
  "POST /api-keys/{keyId}/events": row(30, 5),
  "GET /api-keys/{keyId}/events/{eventId}": row(60, 10),
  "DELETE /api-keys/{keyId}/events/{eventId}": row(10, 3),
  "GET /api-keys/{keyId}/events/{eventId}/deliveries/{subscriptionId}/attempts": row(60, 10),
  "POST /api-keys/{keyId}/events/{eventId}/deliveries/{subscriptionId}/attempt": row(10, 3),
  "POST /api-keys/{keyId}/events/{eventId}/deliveries/{subscriptionId}/cancel": row(10, 3),
  "POST /api-keys/{keyId}/deliveries": row(10, 3),
  "GET /api-keys/{keyId}/attempts": row(60, 10),
  "POST /api-keys/{keyId}/events/{eventId}/replay": row(10, 3),
  "POST /api-keys/{keyId}/replay": row(10, 3),
  "GET /api-keys/{keyId}/stats": row(60, 10),
  "GET /api-keys/{keyId}/stream": row(60, 10),
  "GET /api-keys/{keyId}/audit": row(60, 10),
  "GET /api-keys/{keyId}/attention": row(60, 10),
  "POST /api-keys/{keyId}/attention/acknowledge": row(30, 5),
  "POST /api-keys/{keyId}/portal-links": row(60, 10),
  "DELETE /api-keys/{keyId}/portal-links": row(10, 3),
  "GET /relay/status": row(60, 10),
  "GET /relay/attention": row(60, 10),
  "POST /relay/attention/acknowledge": row(30, 5),
  "GET /relay/backup": row(10, 3),
  "POST /relay/rekey": row(10, 3),
} satisfies LimitRows;

const ACCOUNTS = {
  "POST /auth/setup": row(10, 3),
  "POST /auth/login": row(10, 3),
  "POST /auth/step-up": row(10, 3),
  "POST /auth/refresh": row(10, 3),
  "POST /auth/logout": row(10, 3),
  "POST /auth/totp": row(10, 3),
  "PUT /auth/totp": row(10, 3),
  "GET /auth/users": row(60, 10),
  "POST /auth/users": row(10, 3),
  "DELETE /auth/users/{username}": row(10, 3),
  "POST /auth/users/{username}/reset": row(10, 3),
  "POST /auth/users/{username}/totp": row(10, 3),
  "PUT /auth/users/{username}/totp": row(10, 3),
} satisfies LimitRows;

/** Operations behind the gateway. Those named by an action (`update`, `delete`) have a REST-style form on the same row. */
const GATEWAY = {
  "GET /v1/health": row(60, 10),
  "GET /v1/market/rates": row(60, 10),
  "GET /v1/scopes": row(60, 10),
  "GET /v1/account/me": row(30, 5),
  "PATCH /v1/account/me": row(10, 3),
  "GET /v1/account/wallets": row(30, 5),
  "GET /v1/transactions": row(30, 5),
  "GET /v1/fee-rules": row(30, 5),
  "POST /v1/deposit/create": row(10, 3),
  "GET /v1/deposit-status/{id}": row(60, 10),
  "GET /v1/deposit/quote": row(30, 5),
  "POST /v1/qr/create": row(15, 3),
  "GET /v1/qr": row(30, 5),
  "GET /v1/qr/{slug}": row(60, 10),
  "POST /v1/qr/update": row(15, 3),
  "POST /v1/qr/delete": row(10, 3),
  "POST /v1/qr/pay": row(30, 5),
  "POST /v1/links/create": row(15, 3),
  "GET /v1/links": row(30, 5),
  "GET /v1/links/{slug}": row(60, 10),
  "GET /v1/links/{slug}/transactions": row(30, 5),
  "POST /v1/links/update": row(15, 3),
  "POST /v1/links/delete": row(10, 3),
  "POST /v1/links/pay": row(30, 5),
  "POST /v1/withdraw/create": row(6, 2),
  "GET /v1/withdraw-status": row(30, 5),
  "GET /v1/withdraw-status/{id}": row(60, 10),
} satisfies LimitRows;

/** Every row there is by default. What is not named here has no limit. */
export const defaultRows: LimitRows = { ...WEBHOOKS, ...MANAGEMENT, ...ACCOUNTS, ...GATEWAY };
