/** Finds the limits row of a route, whichever way the route is spelled. */

const PARAMETER = /\{[^/}]*\}|:[A-Za-z_]\w*/g;
const REST_FORM = /^(PATCH|DELETE) (\/v1\/[^/{}]+)\/\{\}$/;
const ACTION_FORM = /^POST (\/v1\/[^/{}]+)\/(update|delete)$/;

/**
 * Returns the operation of a route: the method in capitals, parameters without their names, and the second form of a
 * `/v1` operation as its first, so that `PATCH /v1/qr/:slug` and `POST /v1/qr/update` are one.
 */
export function routeShape(name: string): string {
  const space = name.indexOf(" ");
  if (space < 0) return name;
  const path = name.slice(space + 1).trim();
  const shape = `${name.slice(0, space).toUpperCase()} ${path.replaceAll(PARAMETER, "{}")}`;
  const rest = REST_FORM.exec(shape);
  return rest === null ? shape : `POST ${rest[2]}/${rest[1] === "PATCH" ? "update" : "delete"}`;
}

/** Returns the REST form of a `/v1` operation named by an action: `POST /v1/qr/update` → `PATCH /v1/qr/{slug}`. */
export function restForm(name: string): string | undefined {
  const action = ACTION_FORM.exec(name);
  return action === null ? undefined : `${action[2] === "update" ? "PATCH" : "DELETE"} ${action[1]}/{slug}`;
}
