/** What two spellings of one route have in common. */

const PARAMETER = /\{[^/}]*\}|:[A-Za-z_]\w*/g;

/** `GET /v1/qr/:slug` and `get /v1/qr/{id}` are one route: the method in capitals, parameters without their names. */
export function routeShape(name: string): string {
  const space = name.indexOf(" ");
  if (space < 0) return name;
  return `${name.slice(0, space).toUpperCase()} ${name
    .slice(space + 1)
    .trim()
    .replaceAll(PARAMETER, "{}")}`;
}
