// Everything drawn on the overlay for one match: ground symbols, ranges and lines, damage numbers, and labels. Labels
// are placed by priority within the part of the picture that no panel covers.

import type { PerspectiveCamera } from "three";
import type { Chunk } from "../../data/replay";
import { type Box, type Cutaway, type Point, circlePoints } from "../../framing";
import type { Contact } from "../../data/cursor";
import { isHidden } from "../../data/line_of_sight";
import { type Belief, beliefsAt } from "../../data/observations";
import { contactText, isFresh, markedContacts, memoryOf } from "../../data/perception";
import { sensorRanges } from "../../data/sensor_ranges";
import { type Piece, frontLine } from "../../data/front_line";
import { type Pack, isBattle, packsOf } from "../../data/packs";
import { isOver, zoneText } from "../../score_text";
import { commonOrder, mechName, sideName } from "../../text";
import { TEAMS } from "../../palette";
import type { MatchState, ViewerState } from "../../state";
import { linksOf } from "../links";
import type { Mechs } from "../mechs";
import { drawBeliefs } from "./beliefs";
import type { Overlay } from "./canvas";
import type { DamageNumbers } from "./damage_numbers";
import { type Label, isCrowd, leaderStart, placeLabels, platedMechs } from "./layout";
import { type Heights, drawFront, drawLinks, drawPath, drawRings } from "./lines";
import { contactBox, contactCss, drawContact, drawReticle, drawScope } from "./pilot_view";
import { type Painter, caption, nameHeight, nameplate, packLabel, tag } from "./plates";
import { drawSigns } from "./signs";

const ABOVE = 0.75; // height of a nameplate above a mech's head [vox]
const CAPTIONS_S = 5; // time at the start in which the teams are named in the picture [s]
const FIGHTS_S = 3; // time after a hit for which a mech counts as fighting [s]
const HIDDEN = 0.8; // opacity of the nameplates of mechs behind walls
const ZONE_CSS = "#e8edf2";
const ZONE_PX = 12;
const [PACK_REACH, ZONE_REACH] = [1.5, 2]; // most distance of labels of packs and of the zone, in their heights
const MOST_TAGS = 8; // most contacts with range and age in the first-person view

/** What the overlay shows beside the state. */
export interface AnnotationInputs {
  readonly chunk: Chunk;
  readonly camera: PerspectiveCamera;
  readonly eye: Point; // position of the camera in voxel space
  readonly drawn: Float32Array; // opacity of each mech's model
  readonly hits: Float64Array; // time since each mech was last hit [s], Infinity for never
  readonly path: readonly (readonly [number, number])[]; // path of the selected mech, empty for none
  readonly heights: Heights; // of the map's columns
  readonly voxels: Uint8Array | null; // appearances, null before they are loaded
  readonly cutaway: Cutaway | null;
  readonly contacts: readonly Contact[] | null; // what the pilot of the first-person view knows of, null in other views
}

interface Candidate extends Label {
  readonly painter: Painter;
}

export class Annotations {
  private readonly packs: readonly Pack[];

  constructor(
    private readonly overlay: Overlay,
    private readonly match: MatchState,
    private readonly mechs: Mechs,
    private readonly numbers: DamageNumbers,
  ) {
    this.packs = packsOf(match.header);
  }

  /** Draw the state's moment; `begin` of the overlay has been called. */
  draw(state: ViewerState, inputs: AnnotationInputs): void {
    const { overlay, match } = this;
    const { selected } = state;
    const living = this.living(inputs);
    const hidden = this.hiddenMechs(living, inputs);
    const pilot = inputs.contacts === null ? -1 : selected;
    const front = state.showLinks && pilot < 0 ? frontLine(match.header, match.poses, match.shown) : [];
    if (state.showLinks && pilot < 0) {
      const ranges = selected < 0 ? [] : sensorRanges(match, selected).filter(({ mech }) => mech === selected);
      drawRings(overlay, ranges, match.poses, inputs.heights);
      drawFront(overlay, front);
      const beliefs = this.beliefs(state, inputs.chunk);
      const inside = state.camera.mode === "first";
      drawLinks(overlay, linksOf(match, inputs.chunk, state.tick, selected, inside, beliefs !== null));
      if (beliefs) drawBeliefs(overlay, match, beliefs, selected);
    }
    drawPath(overlay, inputs.path, inputs.heights);
    // from within a mech the signs at its feet would fill the picture
    if (pilot < 0) drawSigns(overlay, inputs.camera, match, this.mechs, living, selected, (mech) => hidden.has(mech));
    const boxes = [...state.covered];
    if (inputs.contacts) boxes.push(...this.drawInstruments(state, inputs, inputs.contacts));
    if (state.showBars) boxes.push(...this.drawLabels(state, inputs, living, hidden, boxes, front));
    if (!isBattle(living.length)) this.numbers.draw(overlay, boxes); // they would hide the melee
  }

  /** Draw what the pilot of the first-person view perceives; returns the boxes that labels keep off. */
  private drawInstruments(state: ViewerState, inputs: AnnotationInputs, contacts: readonly Contact[]): Box[] {
    const { overlay, match } = this;
    const memory = memoryOf(match.header);
    for (const contact of markedContacts(contacts, match.header.insight !== undefined).reverse()) {
      const box = contactBox(overlay, match, contact);
      if (box) drawContact(overlay.brush, contact, box, contactCss(match, contact), memory);
    }
    drawReticle(overlay, match, state.selected, inputs.eye);
    return [drawScope(overlay, state, match, contacts, memory)];
  }

  /** Return where the selected mech's policy believes its contacts to be, null unless its observation is shown. */
  private beliefs({ showPilot, selected, tick }: ViewerState, chunk: Chunk): Belief[] | null {
    const { observed, header } = this.match;
    const found = showPilot && selected >= 0 ? observed.of(selected, false) : null;
    return found && beliefsAt(found, header, chunk, tick, selected);
  }

  /** Return the labels of the pilot's contacts: name, range and age. */
  private contactLabels(contacts: readonly Contact[]): Candidate[] {
    const { header } = this.match;
    const ranked = [...contacts].sort((a, b) => Number(b.target) - Number(a.target));
    return ranked.slice(0, MOST_TAGS).flatMap((contact) => {
      const box = contactBox(this.overlay, this.match, contact);
      if (!box) return [];
      const text = `${mechName(header, contact.mech)}  ${contactText(contact)}`;
      const painter = tag(text, contactCss(this.match, contact), !isFresh(contact));
      const x = (box.left + box.right) / 2;
      return [{ x, y: box.top - 4, width: painter.width, height: painter.height, painter }];
    });
  }

  private living({ drawn }: AnnotationInputs): number[] {
    const { poses, header } = this.match;
    return header.roster
      .map((_, mech) => mech)
      .filter((mech) => header.roster[mech].present && poses.alive[mech] > 0.5 && drawn[mech] > 0.5);
  }

  /** Return the mechs whose heads are behind walls that are not cut away. */
  private hiddenMechs(living: readonly number[], { eye, voxels, cutaway }: AnnotationInputs): Set<number> {
    const { match, mechs } = this;
    const { x, y, z } = match.poses;
    const head = (mech: number): Point => [x[mech], y[mech], z[mech] + mechs.height(mech) / 2];
    const { size } = match.header.world;
    return new Set(living.filter((mech) => voxels && isHidden(voxels, size, head(mech), eye, cutaway)));
  }

  /** Draw the labels off the boxes taken; returns their boxes. */
  private drawLabels(
    state: ViewerState,
    inputs: AnnotationInputs,
    living: readonly number[],
    hidden: ReadonlySet<number>,
    taken: readonly Box[],
    front: readonly Piece[],
  ): Box[] {
    const { width, height, brush } = this.overlay;
    const { left, top, right, bottom } = state.insets;
    const area: Box = { left: left + 4, top: top + 4, right: width - right - 4, bottom: height - bottom - 4 };
    const battle = isBattle(living.length);
    const contacts = inputs.contacts ?? [];
    const inside = inputs.contacts !== null;
    const { roster, insight } = this.match.header;
    // hostiles have boxes in the first-person view
    const friends = inside ? living.filter((mech) => roster[mech].team === roster[state.selected].team) : living;
    const plated = this.plated(state.selected, friends, inputs);
    const zone = state.flying ? [] : this.zoneCaption(state, inputs); // the cockpit's score has it
    const candidates = [
      ...this.contactLabels(markedContacts(contacts, insight !== undefined)),
      ...(living.includes(state.selected) ? this.plate(state.selected, inputs, true, hidden) : []),
      ...(state.tick < CAPTIONS_S * this.match.header.tick_hz ? this.teamCaptions(living) : []),
      ...(battle ? [...zone, ...this.frontCaption(front, area)] : []),
      ...(battle && !inside ? this.packLabels(living, [state.selected, ...plated], inputs) : []),
      ...plated.flatMap((mech) => this.plate(mech, inputs, false, hidden)),
      ...(battle ? [] : zone),
    ];
    const far = isCrowd(living.length) ? {} : { reach: Infinity }; // of labels with lines to their anchors
    const labels = candidates.map((label) => ({ ...label, ...(label.painter.leader ? far : {}) }));
    const boxes = placeLabels(labels, area, taken);
    candidates.forEach((candidate, i) => drawLeader(brush, candidate, boxes[i]));
    // the most important on top
    for (let i = candidates.length - 1; i >= 0; i--) {
      const box = boxes[i];
      if (box) candidates[i].painter.paint(brush, box);
    }
    return boxes.filter((box) => box !== null);
  }

  /** Return the mechs with plates beside the selected one, most important first. */
  private plated(selected: number, living: readonly number[], { eye, hits }: AnnotationInputs): number[] {
    const { x, y, z } = this.match.poses;
    const pack = this.packs.find(({ mechs }) => mechs.includes(selected));
    const cases = living
      .filter((mech) => mech !== selected)
      .map((mech) => ({
        mech,
        own: pack?.mechs.includes(mech) ?? false,
        fights: hits[mech] < FIGHTS_S,
        far: Math.hypot(x[mech] - eye[0], y[mech] - eye[1], z[mech] - eye[2]),
      }));
    return platedMechs(cases, living.length);
  }

  private plate(mech: number, inputs: AnnotationInputs, selected: boolean, hidden: ReadonlySet<number>): Candidate[] {
    const { poses } = this.match;
    const top = poses.z[mech] + this.mechs.height(mech) / 2 + ABOVE;
    const spot = this.overlay.project(poses.x[mech], poses.y[mech], top);
    if (!spot) return [];
    const alpha = (hidden.has(mech) ? HIDDEN : 1) * inputs.drawn[mech];
    const marked = selected || (this.match.commanded?.chosen.has(mech) ?? false);
    const painter = nameplate(this.match, mech, nameHeight(spot.far), marked, alpha);
    return [{ ...spot, width: painter.width, height: painter.height, painter }];
  }

  /** Return the labels of packs of living mechs without plates, each at its middle mech: first those that fight. */
  private packLabels(living: readonly number[], plated: readonly number[], inputs: AnnotationInputs): Candidate[] {
    const alive = new Set(living);
    const { poses } = this.match;
    const found = this.packs.flatMap((pack) => {
      const members = pack.mechs.filter((mech) => alive.has(mech));
      if (members.length === 0 || members.some((mech) => plated.includes(mech))) return [];
      const mean = (column: Float32Array) => members.reduce((sum, mech) => sum + column[mech], 0) / members.length;
      const [x, y] = [mean(poses.x), mean(poses.y)];
      const away = (mech: number) => Math.hypot(poses.x[mech] - x, poses.y[mech] - y);
      const middle = members.reduce((best, mech) => (away(mech) < away(best) ? mech : best));
      const spot = this.overlay.project(poses.x[middle], poses.y[middle], poses.z[middle] + 3);
      if (!spot) return [];
      const fights = members.some((mech) => inputs.hits[mech] < FIGHTS_S);
      const { commanded } = this.match;
      const name = `${pack.mark}${commonOrder(commanded, members).sign}`;
      const marked = fights || members.every((mech) => commanded?.chosen.has(mech));
      const painter = packLabel(pack.team, name, members.length, pack.mechs.length, marked);
      return [{ ...spot, width: painter.width, height: painter.height, painter, reach: PACK_REACH, fights }];
    });
    return found.sort((a, b) => Number(b.fights) - Number(a.fights) || a.far - b.far);
  }

  private teamCaptions(living: readonly number[]): Candidate[] {
    const { header, poses } = this.match;
    return ([0, 1] as const).flatMap((team) => {
      const spots = living
        .filter((mech) => header.roster[mech].team === team)
        .map((mech) => this.overlay.project(poses.x[mech], poses.y[mech], poses.z[mech]))
        .filter((spot) => spot !== null);
      if (spots.length === 0) return [];
      const x = spots.reduce((sum, spot) => sum + spot.x, 0) / spots.length;
      const painter = caption(sideName(header, team), TEAMS[team].css);
      // below the mechs, whose plates are above them
      const y = Math.max(...spots.map((spot) => spot.y)) + painter.height + 14;
      return [{ x, y, width: painter.width, height: painter.height, painter }];
    });
  }

  /** Return the label of the front line, at its piece nearest to the middle of the picture. */
  private frontCaption(front: readonly Piece[], area: Box): Candidate[] {
    const spots = front.flatMap(([[x, y]]) => this.overlay.project(x, y, 0) ?? []);
    const inside = spots.filter(({ x, y }) => x > area.left && x < area.right && y > area.top && y < area.bottom);
    const off = ({ x, y }: { x: number; y: number }) =>
      Math.hypot(2 * x - area.left - area.right, 2 * y - area.top - area.bottom);
    const [spot] = inside.sort((a, b) => off(a) - off(b));
    if (!spot) return [];
    const painter = caption("Front line", ZONE_CSS, ZONE_PX);
    return [{ x: spot.x, y: spot.y, width: painter.width, height: painter.height, painter, reach: ZONE_REACH }];
  }

  private zoneCaption(state: ViewerState, { chunk }: AnnotationInputs): Candidate[] {
    const { header } = this.match;
    const [x, y] = header.zone;
    const centre = this.overlay.project(x, y, 0);
    const edge = circlePoints(header.zone).map((point) => this.overlay.project(...point));
    if (!centre || edge.some((spot) => spot === null)) return [];
    const painter = caption(zoneText(header, chunk, state.tick, isOver(this.match, state.tick)), ZONE_CSS, ZONE_PX);
    const below = Math.max(...edge.map((spot) => spot?.y ?? 0)) + painter.height + 2;
    return [{ x: centre.x, y: below, width: painter.width, height: painter.height, painter, reach: ZONE_REACH }];
  }
}

/** Draw the line from a label that stands far from its anchor. */
function drawLeader(brush: CanvasRenderingContext2D, candidate: Candidate, box: Box | null): void {
  const from = box && candidate.painter.leader ? leaderStart(candidate, box) : null;
  if (!from) return;
  brush.beginPath();
  brush.moveTo(...from);
  brush.lineTo(candidate.x, candidate.y);
  brush.strokeStyle = candidate.painter.leader ?? "";
  brush.lineWidth = 1.25;
  brush.stroke();
}
