// What the address says: which match, and where in it. Values from an address are checked one by one; what makes no
// sense is left out.

import type { CameraMode } from "./state";

/** A place to be. */
export interface Route {
  match: string | null; // id of the catalogue, null for the list
  seconds: number | null; // time in the match
  mech: number | null; // selected mech
  camera: CameraMode | null;
}

const ID = /^[a-z0-9-]{1,64}$/;
const CAMERAS: readonly string[] = ["orbit", "follow", "top"] satisfies CameraMode[];

/** Read the part of an address after "#". */
export function parseRoute(hash: string): Route {
  const fields = new URLSearchParams(hash.replace(/^#/, ""));
  const number = (name: string, most: number): number | null => {
    const text = fields.get(name);
    const value = text === null || text.trim() === "" ? NaN : Number(text);
    return value >= 0 && value <= most ? value : null;
  };
  const [match, camera] = [fields.get("match"), fields.get("cam")];
  const mech = number("mech", 4095);
  return {
    match: match !== null && ID.test(match) ? match : null,
    seconds: number("t", 86400),
    mech: mech !== null && Number.isInteger(mech) ? mech : null,
    camera: camera !== null && CAMERAS.includes(camera) ? (camera as CameraMode) : null,
  };
}

/** Write a place as the part of an address after "#". */
export function formatRoute(route: Route): string {
  if (route.match === null) return "";
  const fields = new URLSearchParams({ match: route.match });
  if (route.seconds !== null) fields.set("t", route.seconds.toFixed(1));
  if (route.mech !== null && route.mech >= 0) fields.set("mech", String(route.mech));
  if (route.camera !== null && route.camera !== "orbit") fields.set("cam", route.camera);
  return `#${fields}`;
}
