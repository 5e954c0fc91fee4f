/** The portal's looks: what the config may choose of its colours, and whether people can read the result. */

export const THEMES = ["light", "dark"] as const;
export type Theme = (typeof THEMES)[number];
/** The colours of a theme that may be chosen. */
export const PORTAL_COLORS = ["accent", "page", "card", "text"] as const;
type PortalColor = (typeof PORTAL_COLORS)[number];
/** Each `#rrggbb`. */
export type ThemeColors = { readonly [Name in PortalColor]?: string };
export type PortalColors = { readonly [Name in Theme]?: ThemeColors };

/** The picture beside the name. */
export interface PortalLogo {
  readonly type: string;
  /** Base64. */
  readonly data: string;
}

/** The portal as the config describes it. */
export interface Portal {
  /** The origin that links begin with. `undefined`: links are relative, but for the address of the relay itself. */
  readonly url?: string | undefined;
  readonly name: string;
  readonly logo?: PortalLogo | undefined;
  readonly colors: PortalColors;
  /** The operator's documentation. */
  readonly docs?: string | undefined;
  /** Origins whose pages may show it in a frame. */
  readonly frameAncestors: readonly string[];
}

/** The page's own colours, as `style.css` has them. Text is written in the first ones, on the second ones. */
export const PALETTE = {
  light: {
    text: "#1a1f2b",
    quiet: "#596275",
    accent: "#2450c4",
    good: "#146c43",
    bad: "#b3261e",
    warn: "#7a4f00",
    info: "#24458f",
    page: "#f6f7f9",
    card: "#ffffff",
    sunk: "#f0f2f5",
    "info-bg": "#e9effc",
    "warn-bg": "#fdf2d9",
    "bad-bg": "#fdeceb",
    "good-bg": "#e3f4ea",
  },
  dark: {
    text: "#e7eaf0",
    quiet: "#a0a9ba",
    accent: "#8fb0ff",
    good: "#6fd69c",
    bad: "#ff9d94",
    warn: "#f2c56b",
    info: "#a9c1ff",
    page: "#0f1218",
    card: "#171b23",
    sunk: "#11151c",
    "info-bg": "#1a2544",
    "warn-bg": "#33270d",
    "bad-bg": "#3a1917",
    "good-bg": "#12301f",
  },
} as const;
type Name = keyof (typeof PALETTE)["light"];

/** Colours that are read on the page and its cards, and those that the chosen text and links are read on. */
const WRITTEN: readonly Name[] = ["text", "quiet", "accent", "good", "bad", "warn", "info"];
const GROUNDS: readonly Name[] = ["page", "card", "sunk"];
const TINTED: readonly Name[] = ["info-bg", "warn-bg", "bad-bg", "good-bg"];
/** WCAG 2.2, 1.4.3. */
const LEAST = 4.5;

/** Returns what is wrong with the chosen colours, by the one to change. Every text must stay readable on what it stands on. */
export function colorProblems(
  theme: Theme,
  chosen: ThemeColors,
): readonly { readonly color: PortalColor; readonly message: string }[] {
  const all: Readonly<Record<Name, string>> = { ...PALETTE[theme], ...chosen };
  const pairs = [
    ...WRITTEN.flatMap((text) => GROUNDS.map((ground) => [text, ground] as const)),
    ...(["text", "accent"] as const).flatMap((text) => TINTED.map((ground) => [text, ground] as const)),
  ];
  const found = new Map<PortalColor, string>();
  for (const [text, ground] of pairs) {
    const color = isChosen(text, chosen) ? text : isChosen(ground, chosen) ? ground : undefined;
    const ratio = contrast(all[text], all[ground]);
    if (color === undefined || ratio >= LEAST || found.has(color)) continue;
    const message = `makes "${text}" (${all[text]}) hard to read on "${ground}" (${all[ground]}): the contrast is ${floor(ratio)}, at least ${LEAST} is needed`;
    found.set(color, message);
  }
  return [...found].map(([color, message]) => ({ color, message }));
}

const isChosen = (name: string, chosen: ThemeColors): name is PortalColor =>
  (PORTAL_COLORS as readonly string[]).includes(name) && chosen[name as PortalColor] !== undefined;
const floor = (ratio: number): string => (Math.floor(ratio * 100) / 100).toFixed(2);

/** Returns what to write with on a colour: black or white, of which one always has enough contrast. */
export const onColor = (color: string): string =>
  contrast("#ffffff", color) >= contrast("#000000", color) ? "#ffffff" : "#000000";

/** The contrast of two colours, 1 to 21 (WCAG 2.2). */
export function contrast(a: string, b: string): number {
  const [light, dark] = [luminance(a), luminance(b)].toSorted((x, y) => y - x) as [number, number];
  return (light + 0.05) / (dark + 0.05);
}

function luminance(color: string): number {
  const [r = 0, g = 0, b = 0] = [1, 3, 5].map((at) => {
    const part = Number.parseInt(color.slice(at, at + 2), 16) / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
