// The head of pages without a picture: the name, and links between the pages.

import { el, icon } from "./dom";

const LOGO = "M12 2l8 5v10l-8 5-8-5V7zM8 9h8M8 12h6M8 15h8";
const PAGES = [
  { page: "list", label: "Matches", hash: "#" },
  { page: "league", label: "League", hash: "#league" },
  { page: "redteams", label: "Red teams", hash: "redteams" }, // a page of the server
] as const;

export function brand(subtitle: string): HTMLElement {
  return el("div", { class: "brand" }, [
    icon(LOGO, "logo"),
    el("div", {}, [el("h1", { text: "Echelon" }), el("p", { text: subtitle })]),
  ]);
}

export function pageLinks(open: (typeof PAGES)[number]["page"]): HTMLElement {
  return el(
    "nav",
    { class: "pages", aria: { label: "Pages" } },
    PAGES.map(({ page, label, hash }) =>
      page === open
        ? el("h2", { text: label, aria: { current: "page" } })
        : el("a", { text: label, attributes: { href: hash } }),
    ),
  );
}
