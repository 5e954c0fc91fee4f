/** Holds paths to their exact spelling: h3's router takes a slash at the end, and a proxy may read another path. */
import { Problem } from "../../model/problem.ts";

type Params = Readonly<Record<string, string>>;

/** A path that ends like this takes whatever follows, as it is written, where no other path fits. */
const REST = "{*}";
const FORBIDDEN = /[/\\\p{Cc}]/u;
/** A path longer than this is of no route. */
const LONGEST = 2_048;

/** Returns a template in h3's spelling. It numbers the parameters, since their names may be none there. */
export const patternOf = (template: string): string =>
  template
    .split("/")
    .map((segment, i) => {
      if (segment === REST) return "**";
      return segment.startsWith("{") ? `:p${i}` : segment.replaceAll(/[\\:*(){}?+]/g, String.raw`\$&`);
    })
    .join("/");

/** @param path as in the request line, without the query */
export const segmentsOf = (path: string): readonly string[] => (path.length > LONGEST ? [] : path.split("/"));

/** Reads the parameters out of the segments of a path; `undefined` where it is no path of this template. */
type ReadPath = (segments: readonly string[]) => Params | undefined;

/** @param template segments may be `{name}`; a parameter is one segment */
export function pathReader(template: string): ReadPath {
  const wanted = template.split("/");
  const rest = wanted.at(-1) === REST;
  return (segments) => {
    if (rest ? segments.length < wanted.length : segments.length !== wanted.length) return undefined;
    const params: Record<string, string> = {};
    for (const [i, name] of wanted.entries()) {
      const segment = segments[i] as string;
      if (!name.startsWith("{")) {
        if (segment !== name) return undefined;
      } else if (name !== REST) {
        const value = decodeSegment(segment);
        if (value === undefined) return undefined;
        params[name.slice(1, -1)] = value;
      }
    }
    return params;
  };
}

/** Returns `undefined` for what is no segment: empty, a dot segment, ill-encoded, or with a slash or a control in it. */
function decodeSegment(segment: string): string | undefined {
  let value = segment;
  try {
    if (segment.includes("%")) value = decodeURIComponent(segment);
  } catch {
    return undefined;
  }
  return value === "" || value === "." || value === ".." || FORBIDDEN.test(value) ? undefined : value;
}

interface Served {
  readonly method: string;
  readonly path: string;
}

/** Puts a literal segment before a parameter. */
export function ranked<Endpoint extends Served>(
  endpoints: readonly Endpoint[],
): readonly { readonly endpoint: Endpoint; readonly read: ReadPath }[] {
  const rankOf = ({ path }: Served): string => path.replaceAll(/\{[^}]*\}/g, "\uffff");
  return endpoints
    .toSorted((a, b) => (rankOf(a) < rankOf(b) ? -1 : Number(rankOf(a) > rankOf(b))))
    .map((endpoint) => ({ endpoint, read: pathReader(endpoint.path) }));
}

/** Makes the problem of a path without a route for the method asked: NOT_FOUND, or the methods that it has instead. */
export function createNoRoute(endpoints: readonly Served[]): (path: string) => Problem {
  const known = ranked(endpoints);
  return (path) => {
    const segments = segmentsOf(path);
    const methods = new Set(known.filter(({ read }) => read(segments)).map(({ endpoint }) => endpoint.method));
    if (methods.size === 0) return new Problem("NOT_FOUND", "There is no such path.");
    const allow = [...methods].flatMap((method) => (method === "GET" ? ["GET", "HEAD"] : [method])).join(", ");
    return new Problem("METHOD_NOT_ALLOWED", `Use ${allow}.`, { headers: { Allow: allow } });
  };
}
