/**
 * Holds paths to their exact spelling. h3's router takes a slash at the end, needless escapes and dot segments as the same
 * path; a proxy in front of the relay may read them as another one. So a route answers only to its own path.
 */

export type Params = Readonly<Record<string, string>>;

/**
 * Reads the parameters out of a path; `undefined` where it is no path of this template.
 * @param path as it stands in the request line, without the query
 * @param segments what stands between its slashes
 */
type ReadPath = (path: string, segments?: readonly string[]) => Params | undefined;

/** A path that ends like this takes whatever follows, as it stands, where no other path fits. */
export const REST = "/{*}";

const NONE: Params = Object.freeze({});
const FORBIDDEN = /[/\\\p{Cc}]/u;
/** A path longer than this is of no route. */
const LONGEST = 2_048;

/** @param template segments may be `{name}`; a parameter is one segment */
export function pathReader(template: string): ReadPath {
  if (template.endsWith(REST)) {
    const prefix = template.slice(0, 1 - REST.length);
    return (path) => (path.startsWith(prefix) && path.length <= LONGEST ? NONE : undefined);
  }
  if (!template.includes("{")) return (path) => (path === template ? NONE : undefined);
  const wanted = segmentsOf(template);
  return (path, segments = segmentsOf(path)) => {
    if (segments.length !== wanted.length || path.length > LONGEST || path.charCodeAt(0) !== 47) return undefined;
    const params: Record<string, string> = {};
    for (const [i, name] of wanted.entries()) {
      const segment = segments[i] as string;
      if (name.startsWith("{")) {
        const value = decodeSegment(segment);
        if (value === undefined) return undefined;
        params[name.slice(1, -1)] = value;
      } else if (segment !== name) return undefined;
    }
    return params;
  };
}

const segmentsOf = (path: string): readonly string[] => path.slice(1).split("/");

/** `undefined` for what is no segment: empty, a dot segment, ill-encoded, or with a slash or a control in it. */
function decodeSegment(segment: string): string | undefined {
  if (segment === "" || segment === "." || segment === "..") return undefined;
  if (!segment.includes("%")) return segment;
  try {
    const value = decodeURIComponent(segment);
    return FORBIDDEN.test(value) || value === "." || value === ".." ? undefined : value;
  } catch {
    return undefined;
  }
}

/** The endpoint with its parameters, or the methods that the path has instead. */
type Match<Endpoint> =
  | { readonly endpoint: Endpoint; readonly params: Params; readonly methods?: undefined }
  | { readonly endpoint?: undefined; readonly methods: readonly string[] };

interface Paths<Endpoint> {
  /**
   * Looks through all endpoints. A literal segment goes before a parameter; where it has no such method, the parameter is
   * tried.
   * @param method HEAD is served by GET
   * @returns undefined when there is no such path
   */
  find(path: string, method: string): Match<Endpoint> | undefined;
}

/** @throws Error when two endpoints have the same method and path */
export function createPaths<Endpoint extends { readonly method: string; readonly path: string }>(
  endpoints: readonly Endpoint[],
): Paths<Endpoint> {
  const taken = new Set<string>();
  for (const { method, path } of endpoints) {
    const name = `${method} ${path.replaceAll(/\{\w+\}/g, "{}")}`;
    if (taken.has(name)) throw new Error(`two routes are ${method} ${path}`);
    taken.add(name);
  }
  const known = endpoints
    .map((endpoint) => ({ endpoint, read: pathReader(endpoint.path), rank: rankOf(endpoint.path) }))
    .toSorted((a, b) => (a.rank < b.rank ? -1 : Number(a.rank > b.rank)));

  return {
    find(path, method) {
      const asked = method === "HEAD" ? "GET" : method;
      const segments = segmentsOf(path);
      const methods = new Set<string>();
      let exact = false;
      for (const { endpoint, read } of known) {
        const rest = endpoint.path.endsWith(REST);
        if (rest && exact) break;
        const params = read(path, segments);
        if (params === undefined) continue;
        if (endpoint.method === asked) return { endpoint, params };
        methods.add(endpoint.method);
        exact ||= !rest;
      }
      return methods.size === 0 ? undefined : { methods: [...methods] };
    },
  };
}

/** Sorts literal segments before parameters, and paths that take the rest behind all others. */
const rankOf = (template: string): string =>
  `${template.endsWith(REST) ? "1" : "0"}${template.replaceAll(/\{[^}]*\}/g, "\uffff")}`;
