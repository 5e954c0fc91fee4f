/** Shows whose page this is: a name, and a picture where there is one. */
import { el } from "./dom.ts";
import { logo, product } from "./page-facts.ts";

const inside = () => [logo !== undefined && el.img({ src: logo, alt: "", height: 24 }), product];
const look = logo === undefined ? "brand" : "brand own";

export const brand = () => el.p({ class: look }, ...inside());
export const brandLink = () => el.a({ class: look, href: "#/" }, ...inside());
