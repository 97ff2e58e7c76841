// The minimap: the ground from above, the zone, every mech with its heading, and the view of the camera. A click
// centres the camera there.

import * as control from "../control";
import { frontLine } from "../data/front_line";
import { sensorRanges } from "../data/sensor_ranges";
import { cellIndex } from "../spaces";
import { APPEARANCES, type Appearance, RANGE_STYLES, TEAMS } from "../palette";
import { MechFlag } from "../protocol.gen";
import type { MatchState, ViewerState } from "../state";
import { el } from "./dom";

const EDGE = 190; // size of the minimap [CSS px]
const SIGN = 4.2; // size of a mech's symbol [CSS px]
const CONE = 0.45; // half the drawn angle of the camera's view [rad]
const LIFT = 0.035; // additional brightness of a column per voxel of its height

export class Minimap {
  private readonly canvas = el("canvas", {
    class: "minimap-picture",
    aria: { label: "Minimap; the table of all mechs (M) lists the same as text" },
    attributes: { role: "img" },
  });
  readonly root = el("section", { class: "minimap panel", aria: { label: "Minimap" } }, [this.canvas]);
  private ground: HTMLCanvasElement | null = null;
  private groundOf: unknown = null;

  constructor(private readonly state: ViewerState) {
    const go = (event: PointerEvent) => {
      const { match } = this.state;
      if (event.buttons !== 1 || !match) return;
      const box = this.canvas.getBoundingClientRect();
      const [sizeX, sizeY] = match.header.world.size;
      control.centreOn(
        this.state,
        ((event.clientX - box.left) / box.width) * sizeX,
        (1 - (event.clientY - box.top) / box.height) * sizeY,
      );
    };
    this.canvas.addEventListener("pointerdown", go);
    this.canvas.addEventListener("pointermove", go);
  }

  update(match: MatchState): void {
    this.root.hidden = !this.state.showMap || match.scenery === null;
    if (this.root.hidden) return;
    const [sizeX, sizeY] = match.header.world.size;
    const scale = EDGE / Math.max(sizeX, sizeY);
    const ratio = Math.min(2, window.devicePixelRatio);
    const [width, height] = [Math.round(sizeX * scale), Math.round(sizeY * scale)];
    if (this.canvas.width !== Math.round(width * ratio) || this.canvas.height !== Math.round(height * ratio)) {
      [this.canvas.width, this.canvas.height] = [Math.round(width * ratio), Math.round(height * ratio)];
      Object.assign(this.canvas.style, { width: `${width}px`, height: `${height}px` });
    }
    const brush = this.canvas.getContext("2d");
    if (!brush) return;
    if (this.groundOf !== match.scenery) this.paintGround(match);
    brush.setTransform(ratio * scale, 0, 0, -ratio * scale, 0, height * ratio); // voxel space, y up
    brush.save();
    brush.setTransform(ratio, 0, 0, ratio, 0, 0);
    brush.imageSmoothingEnabled = false;
    if (this.ground) brush.drawImage(this.ground, 0, 0, width, height);
    brush.restore();
    this.drawZone(brush, match, scale);
    this.drawCamera(brush, match, scale);
    if (this.state.showLinks) this.drawRanges(brush, match, scale);
    this.drawMechs(brush, match, scale);
    this.drawFront(brush, match, scale);
  }

  private paintGround(match: MatchState): void {
    const { scenery } = match;
    this.groundOf = scenery;
    if (!scenery) return;
    const [sizeX, sizeY, sizeZ] = match.header.world.size;
    this.ground = el("canvas");
    [this.ground.width, this.ground.height] = [sizeX, sizeY];
    const picture = new ImageData(sizeX, sizeY);
    const of = (x: number, y: number, z: number) =>
      APPEARANCES[scenery.appearances[cellIndex(x, y, z, sizeX, sizeY)] as Appearance];
    for (let y = 0; y < sizeY; y++) {
      for (let x = 0; x < sizeX; x++) {
        let z = Math.min(sizeZ, scenery.top) - 1;
        while (z > 0 && of(x, y, z).form === "none") z--;
        const colour = of(x, y, z).map || APPEARANCES[1 as Appearance].map;
        const light = 0.85 + LIFT * z;
        picture.data.set(
          [((colour >> 16) & 255) * light, ((colour >> 8) & 255) * light, (colour & 255) * light, 255],
          (x + (sizeY - 1 - y) * sizeX) * 4,
        );
      }
    }
    this.ground.getContext("2d")?.putImageData(picture, 0, 0);
  }

  private drawZone(brush: CanvasRenderingContext2D, match: MatchState, scale: number): void {
    const [x, y, radius] = match.header.zone;
    brush.beginPath();
    brush.arc(x, y, radius, 0, 2 * Math.PI);
    brush.lineWidth = 1.5 / scale;
    brush.strokeStyle = "rgba(255, 214, 120, 0.95)";
    brush.fillStyle = "rgba(255, 214, 120, 0.14)";
    brush.fill();
    brush.stroke();
  }

  private drawRanges(brush: CanvasRenderingContext2D, match: MatchState, scale: number): void {
    const { poses } = match;
    if (Number.isNaN(poses.tick)) return;
    brush.save();
    const ranges = sensorRanges(match, this.state.selected);
    for (const { mech, kind, radius } of ranges.filter((range) => range.mech === this.state.selected)) {
      const { colour, dash, gap } = RANGE_STYLES[kind];
      brush.beginPath();
      brush.arc(poses.x[mech], poses.y[mech], radius, 0, 2 * Math.PI);
      brush.setLineDash(gap > 0 ? [dash * (1 - gap), dash * gap] : []);
      brush.lineWidth = 1 / scale;
      brush.strokeStyle = `#${colour.toString(16).padStart(6, "0")}`;
      brush.stroke();
    }
    brush.restore();
  }

  private drawFront(brush: CanvasRenderingContext2D, { header, poses, shown }: MatchState, scale: number): void {
    brush.beginPath();
    for (const [from, to] of frontLine(header, poses, shown)) {
      brush.moveTo(...from);
      brush.lineTo(...to);
    }
    brush.lineWidth = 2 / scale;
    brush.strokeStyle = "#fff";
    brush.stroke();
  }

  private drawCamera(brush: CanvasRenderingContext2D, match: MatchState, scale: number): void {
    const { camera, selected } = this.state;
    if (camera.mode === "top") return;
    const heading = control.followsMech(camera.mode) && selected >= 0 ? match.poses.yaw[selected] : 0;
    const inside = camera.mode === "first" || camera.mode === "free";
    const azimuth = camera.azimuth + heading;
    const flat = inside ? 0 : Math.cos(camera.elevation) * camera.distance;
    const [x, y] = [camera.target[0] + Math.cos(azimuth) * flat, camera.target[1] + Math.sin(azimuth) * flat];
    const towards = inside ? azimuth : azimuth + Math.PI;
    const reach = inside ? 26 : Math.min(flat * 1.35, 60);
    brush.beginPath();
    brush.moveTo(x, y);
    brush.arc(x, y, reach, towards - CONE, towards + CONE);
    brush.closePath();
    brush.fillStyle = "rgba(255, 255, 255, 0.12)";
    brush.strokeStyle = "rgba(255, 255, 255, 0.4)";
    brush.lineWidth = 1 / scale;
    brush.fill();
    brush.stroke();
  }

  private drawMechs(brush: CanvasRenderingContext2D, match: MatchState, scale: number): void {
    const { poses, header, shown } = match;
    if (Number.isNaN(poses.tick)) return;
    const size = SIGN / scale / Math.max(1, Math.sqrt(header.mechs / 20));
    const around = (angle: number, reach: number) => [Math.cos(angle) * reach, Math.sin(angle) * reach] as const;
    header.roster.forEach(({ team, present }, mech) => {
      if (!present || shown[mech] < 0.5) return;
      const alive = (poses.flags[mech] & MechFlag.ALIVE) !== 0;
      brush.save();
      brush.translate(poses.x[mech], poses.y[mech]);
      brush.rotate(poses.yaw[mech]);
      brush.globalAlpha = alive ? 1 : 0.35;
      brush.fillStyle = TEAMS[team].css;
      const marked = mech === this.state.selected || match.commanded?.chosen.has(mech);
      brush.strokeStyle = marked ? "#fff" : "rgba(5, 8, 12, 0.9)";
      brush.lineWidth = (marked ? 2 : 1) / scale;
      brush.beginPath();
      if (team === 0) brush.arc(0, 0, size, 0, 2 * Math.PI);
      else for (const turn of [0, 0.5, 1, 1.5]) brush.lineTo(...around(turn * Math.PI, 1.2 * size));
      brush.closePath();
      brush.fill();
      brush.stroke();
      if (alive) {
        brush.beginPath();
        brush.moveTo(size, 0);
        brush.lineTo(2.1 * size, 0);
        brush.strokeStyle = TEAMS[team].css;
        brush.lineWidth = 1.6 / scale;
        brush.stroke();
      }
      brush.restore();
    });
  }
}
