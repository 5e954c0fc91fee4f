/** Shows whose page this is: a name, and a picture where there is one. */
import { logo, product } from "../state/page-facts.ts";

const inside = () => [logo !== undefined && <img src={logo} alt={""} height={24} />, product];
const look = logo === undefined ? "brand" : "brand own";

export const brand = () => <p class={look}>{inside()}</p>;
export const brandLink = () => (
  <a class={look} href="#/">
    {inside()}
  </a>
);
