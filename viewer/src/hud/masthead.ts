// What the pages without a picture begin with: the name, and links from one page to the other.

import { el, icon } from "./dom";

const LOGO = "M12 2l8 5v10l-8 5-8-5V7zM8 9h8M8 12h6M8 15h8";
const PAGES = [
  { page: "list", label: "Matches", hash: "#" },
  { page: "league", label: "League", hash: "#league" },
] as const;

/** The name of it all, and what this page is for. */
export function brand(motto: string): HTMLElement {
  return el("div", { class: "brand" }, [icon(LOGO, "logo"), el("div", {}, [el("h1", { text: "Echelon" }), el("p", { text: motto })])]);
}

/** Links to the pages; the one that is open is its heading. */
export function pageLinks(open: (typeof PAGES)[number]["page"]): HTMLElement {
  return el("nav", { class: "pages", aria: { label: "Pages" } }, PAGES.map(({ page, label, hash }) =>
    page === open ? el("h2", { text: label, aria: { current: "page" } }) : el("a", { text: label, attributes: { href: hash } })));
}
