// Service worker of the page: what has been kept is read from the browser's cache, so that the page opens without a
// network. Names of files name their content; only the index is asked for anew, and it names all others.

const KEPT = `echelon ${self.registration.scope}`;
const MANIFEST = /<script[^>]*id="echelon-game"[^>]*>(.*?)<\/script>/s;

self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));
self.addEventListener("message", (event) => event.waitUntil(keep()));
self.addEventListener("fetch", (event) => {
  if (event.request.method === "GET" && event.request.url.startsWith(self.registration.scope))
    event.respondWith(answer(event.request));
});

async function answer(request) {
  const kept = await caches.open(KEPT);
  if (request.mode !== "navigate") return (await kept.match(request)) ?? fetch(request);
  return fetch(request.url, { cache: "no-cache" }).catch(async (lost) => (await kept.match("./")) ?? Promise.reject(lost));
}

/** Keep the files of the newest page, the index last, and delete those of others. */
async function keep() {
  const kept = await caches.open(KEPT);
  const index = await fetch("./", { cache: "no-cache" });
  const { files } = JSON.parse(MANIFEST.exec(await index.clone().text())[1]);
  const wanted = new Set(["./", ...Object.keys(files)].map((path) => new URL(path, self.registration.scope).href));
  const known = new Set((await kept.keys()).map(({ url }) => url));
  for (const path of Object.keys(files)) if (!known.has(new URL(path, self.registration.scope).href)) await kept.add(path);
  await kept.put("./", index);
  for (const url of known) if (!wanted.has(url)) await kept.delete(url);
}
