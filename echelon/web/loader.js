// Starts the viewer of a page without a server: unpacks its scripts, which static hosts would send uncompressed.

const game = JSON.parse(document.getElementById("echelon-game").textContent);
const [, status, ...bar] = document.querySelectorAll("#skeleton text, #skeleton rect");

/** Return a script of the page; hosts that announce the compression have unpacked it. */
async function unpack(path) {
  const response = await fetch(path);
  if (!response.ok) throw new Error(`File ${path} has status ${response.status}; load the page again.`);
  const data = await response.blob();
  const [first] = new Uint8Array(await data.slice(0, 1).arrayBuffer());
  const packed = first === 0x1f;
  return packed ? new Response(data.stream().pipeThrough(new DecompressionStream("gzip"))).blob() : data;
}

/** Return why the page cannot start, "" if it can. */
function obstacle() {
  if (location.protocol === "file:")
    return (
      "A browser reads no game from a file: run `python -m http.server` in its folder (in a competition's, not below), " +
      "open http://localhost:8000"
    );
  if (typeof DecompressionStream === "undefined")
    return "This browser lacks DecompressionStream, expected Chrome 80, Firefox 113, Safari 16.4 or newer.";
  return "";
}

/** Start workers from scripts that have been unpacked. */
function useScripts(scripts) {
  const Native = window.Worker;
  window.Worker = class extends Native {
    constructor(url, options) {
      super(scripts.get(String(url).split("/").pop()) ?? url, options);
    }
  };
}

async function start() {
  const found = obstacle();
  if (found !== "") throw new Error(found);
  const [code, ...workers] = await Promise.all(game.viewer.map(unpack));
  const named = game.viewer.slice(1).map((path) => path.split("/").pop().replace(/\.gz$/, ""));
  const address = (worker) => URL.createObjectURL(new Blob([worker], { type: "text/javascript" }));
  useScripts(new Map(workers.map((worker, i) => [named[i], address(worker)])));
  const script = document.createElement("script");
  script.type = "module";
  script.textContent = await code.text(); // inline, so that its relative addresses are those of the page
  document.body.append(script);
}

/** Keep all files for visits without a network, once the first ones have arrived. */
async function keepFiles() {
  await navigator.serviceWorker?.register("offline.js");
  const { active } = (await navigator.serviceWorker?.ready) ?? {};
  active?.postMessage("keep");
}

start().then(keepFiles, ({ message }) => {
  status.textContent = message;
  for (const part of bar) part.remove();
});
