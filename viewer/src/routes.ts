// Addresses of the viewer: page, match and moment in the URL fragment. Values are validated one by one; invalid ones
// are ignored.

import { FOGS, type Fog } from "./data/cursor";
import { CAMERA_MODES, type CameraMode, LAYERS, type Layer } from "./state";

export interface Route {
  match: string | null; // catalogue id, null for the list
  seconds: number | null; // time in the match
  mech: number | null; // selected mech
  camera: CameraMode | null;
  view?: [number, number, number, number, number, number]; // target, azimuth, elevation and distance of the camera
  fog?: Fog;
  layer?: Layer;
  loop?: [number, number]; // start and end of the loop [s]
  newest?: string; // follow the newest match of this run, "" for any run
  league?: boolean; // the league page
}

const RUN = /^[A-Za-z0-9._-]{0,128}$/;
const MOST = 100000; // largest absolute value of a camera coordinate
const ID = /^[a-z0-9-]{1,64}$/;

function oneOf<Choice extends string>(choices: readonly Choice[], text: string | null): Choice | null {
  return choices.find((choice) => choice === text) ?? null;
}

export function parseRoute(hash: string): Route {
  const fields = new URLSearchParams(hash.replace(/^#/, ""));
  const number = (name: string, most: number): number | null => {
    const text = fields.get(name);
    const value = text === null || text.trim() === "" ? NaN : Number(text);
    return value >= 0 && value <= most ? value : null;
  };
  const [match, camera] = [fields.get("match"), fields.get("cam")];
  const mech = number("mech", 4095);
  const list = (name: string, count: number): number[] | undefined => {
    const values = (fields.get(name) ?? "").split(/[,~]/).map((text) => (text.trim() === "" ? NaN : Number(text)));
    return values.length === count && values.every((value) => Math.abs(value) <= MOST) ? values : undefined;
  };
  const [fog, layer, newest, loop] = [fields.get("fog"), fields.get("layer"), fields.get("newest"), list("ab", 2)];
  return {
    view: list("view", 6) as Route["view"],
    fog: oneOf(FOGS, fog) ?? undefined,
    layer: oneOf(LAYERS, layer) ?? undefined,
    loop: loop && loop[0] >= 0 && loop[1] > loop[0] ? [loop[0], loop[1]] : undefined,
    newest: newest !== null && RUN.test(newest) ? newest : undefined,
    league: fields.has("league") || undefined,
    match: match !== null && ID.test(match) ? match : null,
    seconds: number("t", 86400),
    mech: mech !== null && Number.isInteger(mech) ? mech : null,
    camera: oneOf(CAMERA_MODES, camera),
  };
}

/** Return words as a part of an address that can be read. */
export function readableWords(words: string): string {
  return words
    .replace(/(\d):(\d)/g, "$1.$2")
    .replace(/[^\p{L}\p{N}.]+/gu, "-")
    .replace(/^-|-$/g, "");
}

/** Return the URL fragment of a route; without a match id it refers to the match embedded in the page. */
export function formatRoute(route: Route): string {
  const fields = new URLSearchParams();
  if (route.match !== null) fields.set("match", route.match);
  if (route.seconds !== null) fields.set("t", route.seconds.toFixed(1));
  if (route.mech !== null && route.mech >= 0) fields.set("mech", String(route.mech));
  if (route.camera !== null && route.camera !== "orbit") fields.set("cam", route.camera);
  if (route.view) fields.set("view", route.view.map((value) => Number(value.toFixed(2))).join("~"));
  if (route.fog && route.fog !== "none") fields.set("fog", route.fog);
  if (route.layer && route.layer !== "none") fields.set("layer", route.layer);
  if (route.loop) fields.set("ab", route.loop.map((value) => value.toFixed(1)).join("~"));
  if (route.newest !== undefined) fields.set("newest", route.newest);
  return fields.size === 0 ? "" : `#${fields}`;
}
