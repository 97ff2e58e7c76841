// Helpers for building pages: elements with properties and children, icons, and setters that touch the DOM only on
// change.

type Child = Node | string | null;

/** Properties of an element: `on...` are listeners, `data` and `aria` are prefixed attributes. */
export interface Properties {
  class?: string;
  text?: string;
  title?: string;
  data?: Record<string, string>;
  aria?: Record<string, string>;
  attributes?: Record<string, string>;
  onclick?: (event: MouseEvent) => void;
}

export function el<Name extends keyof HTMLElementTagNameMap>(
  name: Name,
  properties: Properties = {},
  children: readonly Child[] = [],
): HTMLElementTagNameMap[Name] {
  const element = document.createElement(name);
  if (properties.class) element.className = properties.class;
  if (properties.text !== undefined) element.textContent = properties.text;
  if (properties.title) element.title = properties.title;
  Object.assign(element.dataset, properties.data ?? {});
  for (const [key, value] of Object.entries(properties.aria ?? {})) element.setAttribute(`aria-${key}`, value);
  for (const [key, value] of Object.entries(properties.attributes ?? {})) element.setAttribute(key, value);
  if (properties.onclick) element.addEventListener("click", properties.onclick as EventListener);
  element.append(...children.filter((child): child is Node | string => child !== null));
  return element;
}

/** Create a button; its label is both tooltip (hud/tooltip.ts) and accessible name. */
export function button(label: string, content: Child, onclick: () => void, className = "button"): HTMLButtonElement {
  const properties = {
    class: className,
    data: { tip: label },
    aria: { label },
    attributes: { type: "button" },
    onclick,
  };
  return el("button", properties, [content]);
}

/** Create a button with an icon and, where there is room or on phones, its word. */
export function wordButton(
  word: string,
  label: string,
  path: string,
  onclick: () => void,
  className = "button",
): HTMLButtonElement {
  const made = button(label, icon(path), onclick, className);
  made.append(el("span", { class: "word", text: word }));
  return made;
}

/** Create a button with its name as text. */
export function textButton(text: string, onclick: () => void, className = "button"): HTMLButtonElement {
  return el("button", { class: className, text, attributes: { type: "button" }, onclick });
}

/** Create a hidden dialog: its title, a button that closes it, and a body with the children. */
export function dialog(
  name: string,
  label: string,
  onClose: () => void,
  children: readonly Child[],
  title: HTMLElement = el("h2", { text: label }),
): HTMLElement {
  const properties = { class: `overlay panel ${name}`, attributes: { role: "dialog" }, aria: { label } };
  const root = el("section", properties, [
    el("header", {}, [title, button("Close (Esc)", icon(ICONS.close), onClose)]),
    el("div", { class: "overlay-body" }, children),
  ]);
  root.hidden = true;
  return root;
}

/** Create a row of a dialog: its label and controls. */
export function field(label: string, ...controls: HTMLElement[]): HTMLLabelElement {
  return el("label", { class: "setting" }, [el("span", { text: label }), ...controls]);
}

export function option(value: string, text = value): HTMLOptionElement {
  return el("option", { text, attributes: { value } });
}

export function checkbox(): HTMLInputElement {
  return el("input", { attributes: { type: "checkbox" } });
}

export function setLabel(button: HTMLElement, label: string): void {
  if (button.dataset.tip === label) return;
  button.dataset.tip = label;
  button.setAttribute("aria-label", label);
}

/** Explain an element by a tooltip, which also the keyboard and screen readers reach; "" for none. */
export function describe(element: HTMLElement, tip: string): void {
  if (element.dataset.tip === tip) return;
  element.dataset.tip = tip;
  element.tabIndex = tip === "" ? -1 : 0;
  element.setAttribute("aria-description", tip);
}

const SVG = "http://www.w3.org/2000/svg";

/** Create an icon from a stroked path in a 24 by 24 box. */
export function icon(path: string, className = "icon"): SVGSVGElement {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("class", className);
  svg.setAttribute("aria-hidden", "true");
  const stroke = document.createElementNS(SVG, "path");
  stroke.setAttribute("d", path);
  svg.append(stroke);
  return svg;
}

export function setText(element: Element, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}

/** Set the filled share of a bar, 0 to 1. */
export function setShare(element: HTMLElement, share: number): void {
  const text = `${(Math.max(0, Math.min(1, share)) * 100).toFixed(1)}%`;
  if (element.style.width !== text) element.style.width = text;
}

export const ICONS = {
  back: "M15 5l-7 7 7 7",
  play: "M8 5v14l11-7z",
  pause: "M8 5v14M16 5v14",
  reverse: "M16 5v14L5 12z",
  stepBack: "M18 6l-8 6 8 6zM6 6v12",
  stepOn: "M6 6l8 6-8 6zM18 6v12",
  next: "M5 6l7 6-7 6zM13 6l7 6-7 6z",
  previous: "M19 6l-7 6 7 6zM11 6l-7 6 7 6z",
  orbit: "M12 3a9 9 0 1 0 9 9M21 3v6h-6M12 9a3 3 0 1 0 .1 0",
  follow: "M12 8a4 4 0 1 0 .1 0M12 1v4M12 19v4M1 12h4M19 12h4",
  top: "M4 4h16v16H4zM4 12h16M12 4v16",
  chart: "M4 19h16M5 15l4-5 4 3 6-8",
  table: "M4 5h16v14H4zM4 10h16M4 15h16M10 5v14",
  help: "M9 9a3 3 0 1 1 4 2.800c-1 .5-1 1.200-1 2.200M12 18v.5",
  settings: "M4 7h9M19 7h1M4 17h1M11 17h9M16 4.500a2.500 2.500 0 1 0 .1 0M8 14.500a2.500 2.500 0 1 0 .1 0",
  fullscreen: "M4 9V4h5M15 4h5v5M20 15v5h-5M9 20H4v-5",
  close: "M6 6l12 12M18 6L6 18",
  verify: "M4 12l5 5L20 6",
  first: "M2 12s4-7 10-7 10 7 10 7-4 7-10 7-10-7-10-7zM12 9a3 3 0 1 0 .1 0",
  free: "M3 11l18-8-8 18-2-8z",
  director: "M4 9h12v10H4zM16 13l5-3v8l-5-3M6 9l2-4 4 4 2-4",
  fog: "M5 16h14M3 12h10M16 12h5M7 8h12M8 20h8",
  layer: "M12 3l9 5-9 5-9-5zM3 13l9 5 9-5",
  links: "M6 18a2 2 0 1 0 .1 0M18 6a2 2 0 1 0 .1 0M7.500 18.500L17 8M18 16v4M16 18h4",
  pilot: "M3 17l5-8 4 5 3-4 6 9M3 21h18M12 2v4M10 4h4",
  map: "M9 4L3 6v14l6-2 6 2 6-2V4l-6 2zM9 4v14M15 6v14",
  share: "M12 14V3M8 7l4-4 4 4M5 12v8h14v-8",
  link: "M10 14a4 4 0 0 0 6 0l3-3a4 4 0 0 0-6-6l-1 1M14 10a4 4 0 0 0-6 0l-3 3a4 4 0 0 0 6 6l1-1",
  picture: "M4 6h4l2-2h4l2 2h4v13H4zM12 9a4 4 0 1 0 .1 0",
  film: "M4 5h16v14H4zM8 5v14M16 5v14M4 9.500h4M4 14.500h4M16 9.500h4M16 14.500h4",
  loop: "M4 12V9a3 3 0 0 1 3-3h11M15 3l3 3-3 3M20 12v3a3 3 0 0 1-3 3H6M9 21l-3-3 3-3",
  newest: "M5 12a7 7 0 0 1 14 0M8 12a4 4 0 0 1 8 0M12 12v8M9 17l3 3 3-3",
  download: "M12 4v11M7 11l5 5 5-5M5 20h14",
} as const;

/** Update a list's children to the given elements in order, touching only changes; the focus is kept. */
export function replaceChanged(list: Element, elements: readonly Element[]): void {
  const focused = document.activeElement;
  const current = new Set(elements);
  for (const child of [...list.children]) if (!current.has(child)) child.remove();
  let at = list.firstElementChild;
  for (const child of elements) {
    if (child === at) at = at.nextElementSibling;
    else list.insertBefore(child, at);
  }
  // moving an element removes its focus
  if (focused instanceof HTMLElement && focused !== document.activeElement && list.contains(focused))
    focused.focus({ preventScroll: true });
}

/** Update the options of a menu, after one for no filter. */
export function fill(
  select: HTMLSelectElement,
  none: string,
  options: readonly (readonly [string, string])[],
  chosen: string,
): void {
  const elements = [["", none] as const, ...options];
  const key = JSON.stringify(elements);
  if (select.dataset.options !== key) {
    select.replaceChildren(...elements.map(([value, text]) => option(value, text)));
    select.dataset.options = key;
  }
  if (select.value !== chosen) select.value = chosen;
}
