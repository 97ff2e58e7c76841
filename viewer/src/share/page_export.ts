// Export of the viewer and the open match as one HTML file that opens without a server, put together in the browser as
// echelon/server/page.py does on the server.

import { HOLDERS } from "../data/embedded";

const SCRIPT = /<script type="module"[^>]*\bsrc="\.\/([^"]+)"[^>]*><\/script>/;
const STYLE = /<link rel="stylesheet"[^>]*\bhref="\.\/([^"]+)"[^>]*>/;
const ICON = /(<link rel="icon"[^>]*\bhref=")\.\/([^"]+)("[^>]*>)/;
const ASSET = /url\(\.\/([^)]+)\)/g;
const WORKER = /[\w.-]+\.worker-[\w-]+\.js/g;
const TYPES: Record<string, string> = { woff2: "font/woff2", svg: "image/svg+xml" };
const STEP = 0x8000; // bytes that become text at once

/** Reads a file of the viewer by its address relative to the page. */
export type ReadAsset = (path: string) => Promise<Uint8Array>;

/** What an exported page carries. */
export interface PageContent {
  readonly replay: Uint8Array;
  readonly name: string; // file name of the replay
  readonly title: string; // of the page
  readonly start: string; // moment at which it opens, as a fragment
  readonly world: Uint8Array | null; // stored world of a replay that has none
}

/** Return bytes as base64. */
export function toBase64(bytes: Uint8Array): string {
  let text = "";
  for (let at = 0; at < bytes.length; at += STEP) text += String.fromCharCode(...bytes.subarray(at, at + STEP));
  return btoa(text);
}

/** Return text without characters that have a meaning in HTML. */
export function escapeHtml(text: string): string {
  const names: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;" };
  return text.replace(/[&<>"']/g, (letter) => names[letter]);
}

/** Return JSON without characters that end or begin an element. */
function scriptJson(value: unknown): string {
  return JSON.stringify(value).replaceAll("<", "\\u003c");
}

/** Return the page; throws where the viewer's files are not as its build writes them. */
export async function exportPage(content: PageContent, read: ReadAsset): Promise<string> {
  const decoder = new TextDecoder();
  const text = async (path: string) => decoder.decode(await read(path));
  const dataUrl = async (path: string) =>
    `data:${TYPES[path.split(".").pop() ?? ""] ?? "application/octet-stream"};base64,${toBase64(await read(path))}`;
  const page = await text("index.html");
  const [script, style, icon] = [SCRIPT.exec(page), STYLE.exec(page), ICON.exec(page)];
  if (!script || !style) throw new Error("the viewer's page has no script or no style sheet");
  const code = await text(script[1]);
  const folder = script[1].replace(/[^/]*$/, "");
  const workers: Record<string, string> = {};
  for (const name of new Set(code.match(WORKER))) workers[name] = toBase64(await read(folder + name));
  let css = await text(style[1]);
  for (const [whole, name] of css.matchAll(ASSET)) css = css.replaceAll(whole, `url(${await dataUrl(folder + name)})`);
  const holder = (id: string, kind: string, body: string, more = "") =>
    `<script type="${kind}" id="${id}"${more}>${body}</script>`;
  const marks = ` data-name="${escapeHtml(content.name)}" data-start="${escapeHtml(content.start)}"`;
  const parts = [
    holder(HOLDERS.replay, "text/plain", toBase64(content.replay), marks),
    ...(content.world ? [holder(HOLDERS.world, "text/plain", toBase64(content.world))] : []),
    holder(HOLDERS.workers, "application/json", scriptJson(workers)),
    `<script type="module">${code.replaceAll("</script", "<\\/script").replaceAll("<!--", "<\\!--")}</script>`,
  ];
  const picture = icon ? `${icon[1]}${await dataUrl(icon[2])}${icon[3]}` : "";
  return page
    .replace(script[0], "")
    .replace(style[0], () => `<style>${css}</style>`)
    .replace(icon?.[0] ?? "", () => picture)
    .replace(/<title>.*?<\/title>/, () => `<title>${escapeHtml(content.title)}</title>`)
    .replace("</body>", () => `${parts.join("\n")}\n</body>`);
}
