// Models of the mech classes, recognisable by outline: a scout is a small pod with a dish and a whip antenna; a light
// mech a lean hull on backward legs; a medium one has head, shoulders and arms; a heavy one is broad, with a missile
// rack and a long gun on its shoulders. A new class is a row in MODELS.

import type { BufferGeometry } from "three";
import type { ChassisName } from "../protocol.gen";
import { Bone, Glow, MechKit, type Point } from "./mech_kit";

const FRAME = 0x3d434b; // joints and legs
const HULL = 0x6c747e; // armour
const PALE = 0x9aa3ad; // lighter armour
const DARK = 0x24282e; // muzzles and gaps
const GUN = 0x4a4f57;
const EYE = 0xbdf3ff;
const VENT = 0x2b2522;

export interface Gait {
  readonly stride: number; // distance walked per cycle of both legs [vox]
  readonly swing: number; // largest angle of a thigh [rad]
  readonly bob: number; // vertical movement of the body [vox]
}

export interface MechModel {
  readonly build: (fine: boolean) => BufferGeometry; // fine with chamfered edges, or coarse for distant mechs
  readonly gait: Gait;
  readonly muzzle: Point; // in mech space
}

/** Joints of the right leg; the left one is its mirror image. */
interface LegPlan {
  hip: Point;
  knee: Point;
  ankle: Point;
  thick: number; // thickness of the thigh, front to back [vox]
  wide: number;
  flex: number; // bend of a lifted knee [rad]
  foot: Point; // size
  shield: number; // share of the team's colour on the shin guard
}

function legs(kit: MechKit, plan: LegPlan): void {
  for (const side of [-1, 1]) {
    const at = (p: Point): Point => [p[0], p[1], p[2] * side];
    const [hip, knee, ankle] = [at(plan.hip), at(plan.knee), at(plan.ankle)];
    const joints = { side, hip, knee, flex: plan.flex };
    const half = plan.wide * 0.62;
    kit.setPaint({ ...joints, bone: Bone.THIGH, colour: FRAME });
    kit.tube([hip[0], hip[1], hip[2] - half], [hip[0], hip[1], hip[2] + half], plan.thick * 0.5);
    kit.changePaint({ colour: HULL }).limb(hip, knee, plan.thick, plan.wide, 0.85);
    kit.changePaint({ bone: Bone.SHIN, colour: FRAME });
    kit.tube([knee[0], knee[1], knee[2] - half * 0.9], [knee[0], knee[1], knee[2] + half * 0.9], plan.thick * 0.42);
    kit.changePaint({ colour: HULL, team: plan.shield }).limb(knee, ankle, plan.thick * 0.85, plan.wide * 0.9, 0.8);
    kit.changePaint({ colour: FRAME, team: 0 });
    const [long, high, wide] = plan.foot;
    kit.slab([ankle[0] + long * 0.14, high / 2, ankle[2]], [long, high, wide], {
      top: [0.66, 0.72],
      shift: -long * 0.1,
    });
  }
}

function heavy(fine: boolean): BufferGeometry {
  const kit = new MechKit(fine);
  legs(kit, {
    hip: [-0.1, 1.95, 0.85],
    knee: [0.28, 1.15, 0.98],
    ankle: [-0.05, 0.32, 1.05],
    thick: 0.78,
    wide: 0.74,
    flex: -0.9,
    foot: [1.45, 0.4, 1.0],
    shield: 0.75,
  });
  kit.setPaint({ colour: FRAME }).slab([-0.1, 1.98, 0], [1.15, 0.5, 1.5]);
  kit.setPaint({ colour: HULL }).slab([-0.1, 2.72, 0], [1.75, 1.2, 1.95], { top: [1.08, 1.12], chamfer: 0.22 });
  kit
    .setPaint({ colour: PALE, team: 0.9 })
    .slab([0.66, 2.78, 0], [0.75, 0.82, 1.3], { top: [0.5, 0.82], shift: -0.18, chamfer: 0.14 });
  kit.setPaint({ colour: EYE, glow: Glow.EYE }).slab([0.98, 2.93, 0], [0.12, 0.17, 0.78], { chamfer: 0.03 });
  kit.setPaint({ colour: DARK }).slab([0.7, 2.3, 0], [0.6, 0.3, 1.0], { chamfer: 0.06 });
  kit.setPaint({ colour: HULL }).slab([-0.25, 3.38, 0], [1.1, 0.32, 1.1], { top: [0.7, 0.8] });
  // left shoulder: missile rack
  kit.setPaint({ colour: PALE, team: 0.85 }).slab([0.05, 3.42, -1.36], [1.5, 0.98, 0.86], { chamfer: 0.13 });
  kit.setPaint({ colour: DARK }).slab([0.78, 3.42, -1.36], [0.14, 0.82, 0.72], { chamfer: 0.03 });
  for (const y of [3.18, 3.42, 3.66])
    for (const z of [-1.53, -1.19]) kit.setPaint({ colour: 0xc8563a }).tube([0.8, y, z], [0.9, y, z], 0.1, 0.05, 6);
  // right shoulder: the long gun
  kit.setPaint({ colour: PALE, team: 0.85 }).slab([-0.28, 3.4, 1.36], [1.45, 0.72, 0.74], { chamfer: 0.13 });
  kit.setPaint({ colour: GUN }).tube([0.3, 3.42, 1.36], [2.35, 3.42, 1.36], 0.2, 0.15);
  kit.changePaint({ colour: DARK }).tube([2.15, 3.42, 1.36], [2.62, 3.42, 1.36], 0.24, 0.24);
  kit.setPaint({ colour: 0xb39cff, glow: Glow.EYE }).slab([0.66, 3.42, 1.36], [0.5, 0.48, 0.1], { chamfer: 0.03 });
  // arms with lasers
  kit.setPaint({ colour: FRAME }).slabs([-0.1, 2.72, 1.22], [0.6, 0.5, 0.5]);
  kit.setPaint({ colour: HULL }).slabs([0.22, 2.4, 1.5], [1.25, 0.56, 0.5], { chamfer: 0.1 });
  kit.setPaint({ colour: DARK }).tubes([0.8, 2.4, 1.5], [1.4, 2.4, 1.5], 0.11);
  // back: radiators and stacks
  kit.setPaint({ colour: VENT, glow: Glow.VENT }).slabs([-1.02, 2.75, 0.45], [0.14, 0.8, 0.52], { chamfer: 0.02 });
  kit.setPaint({ colour: DARK }).tubes([-0.8, 3.2, 0.35], [-1.0, 3.85, 0.35], 0.14);
  kit.setPaint({ colour: 0xffffff, glow: Glow.LAMP }).slabs([-0.7, 3.82, 1.36], [0.12, 0.1, 0.12], { chamfer: 0.02 });
  return kit.build();
}

function medium(fine: boolean): BufferGeometry {
  const kit = new MechKit(fine);
  legs(kit, {
    hip: [0, 1.5, 0.42],
    knee: [0.2, 0.85, 0.48],
    ankle: [-0.04, 0.22, 0.52],
    thick: 0.48,
    wide: 0.44,
    flex: -1.05,
    foot: [0.92, 0.26, 0.54],
    shield: 0.8,
  });
  kit.setPaint({ colour: FRAME }).slab([0, 1.52, 0], [0.6, 0.36, 0.78]);
  kit.setPaint({ colour: FRAME }).tube([0, 1.6, 0], [0, 1.9, 0], 0.24);
  kit.setPaint({ colour: HULL }).slab([0.02, 2.14, 0], [0.84, 0.78, 0.92], { top: [1.12, 1.45], chamfer: 0.13 });
  kit
    .setPaint({ colour: PALE, team: 0.95 })
    .slab([0.42, 2.24, 0], [0.3, 0.52, 0.86], { top: [0.7, 1.1], shift: 0.04, chamfer: 0.08 });
  // head
  kit.setPaint({ colour: PALE }).slab([0.16, 2.74, 0], [0.46, 0.4, 0.42], { top: [0.74, 0.74], chamfer: 0.08 });
  kit.setPaint({ colour: EYE, glow: Glow.EYE }).slab([0.37, 2.76, 0], [0.08, 0.1, 0.34], { chamfer: 0.02 });
  kit.setPaint({ colour: DARK }).tube([-0.05, 2.85, 0.2], [-0.14, 3.2, 0.24], 0.02);
  // shoulders and arms
  kit
    .setPaint({ colour: PALE, team: 0.95 })
    .slabs([0, 2.48, 0.92], [0.74, 0.5, 0.52], { top: [0.72, 0.6], chamfer: 0.1 });
  kit.setPaint({ colour: FRAME }).slabs([0, 2.1, 0.98], [0.3, 0.5, 0.28]);
  kit.setPaint({ colour: HULL }).slab([0.3, 1.76, 1.0], [0.98, 0.38, 0.38]);
  kit.setPaint({ colour: GUN }).tube([0.7, 1.76, 1.0], [1.62, 1.76, 1.0], 0.12, 0.1);
  kit.changePaint({ colour: DARK }).tube([1.48, 1.76, 1.0], [1.74, 1.76, 1.0], 0.16);
  kit.setPaint({ colour: GUN }).slab([0.2, 1.5, 1.0], [0.4, 0.3, 0.34]);
  kit.setPaint({ colour: HULL }).slab([0.25, 1.76, -1.0], [0.8, 0.36, 0.36]);
  kit.setPaint({ colour: DARK }).tube([0.6, 1.76, -1.0], [1.2, 1.76, -1.0], 0.1, 0.13);
  kit.setPaint({ colour: 0x7dffb2, glow: Glow.EYE }).tube([1.18, 1.76, -1.0], [1.24, 1.76, -1.0], 0.09);
  // backpack
  kit.setPaint({ colour: FRAME }).slab([-0.52, 2.3, 0], [0.36, 0.72, 0.8], { chamfer: 0.07 });
  kit.setPaint({ colour: VENT, glow: Glow.VENT }).slabs([-0.71, 2.32, 0.2], [0.08, 0.5, 0.24], { chamfer: 0.02 });
  kit.setPaint({ colour: 0xffffff, glow: Glow.LAMP }).slabs([-0.3, 2.7, 1.0], [0.1, 0.08, 0.1], { chamfer: 0.02 });
  return kit.build();
}

function light(fine: boolean): BufferGeometry {
  const kit = new MechKit(fine);
  legs(kit, {
    hip: [-0.05, 1.12, 0.34],
    knee: [-0.42, 0.66, 0.42],
    ankle: [0.06, 0.16, 0.46],
    thick: 0.26,
    wide: 0.24,
    flex: 1.0,
    foot: [0.56, 0.18, 0.3],
    shield: 0.6,
  });
  kit.setPaint({ colour: FRAME }).slab([-0.05, 1.14, 0], [0.46, 0.26, 0.6]);
  kit
    .setPaint({ colour: HULL })
    .slab([0.0, 1.45, 0], [1.1, 0.42, 0.62], { top: [0.72, 0.66], shift: -0.12, chamfer: 0.1 });
  kit
    .setPaint({ colour: PALE, team: 1 })
    .slab([0.62, 1.4, 0], [0.62, 0.32, 0.46], { top: [0.4, 0.6], shift: -0.2, chamfer: 0.06 });
  kit
    .setPaint({ colour: EYE, glow: Glow.EYE })
    .slab([0.62, 1.54, 0], [0.34, 0.07, 0.3], { turn: [0, 0, -0.42], chamfer: 0.02 });
  // flamer under the chin, laser at the side
  kit.setPaint({ colour: DARK }).tubes([0.5, 1.16, 0.14], [1.05, 1.14, 0.14], 0.075, 0.1);
  kit.setPaint({ colour: 0xff8a24, glow: Glow.EYE }).tubes([1.04, 1.14, 0.14], [1.07, 1.14, 0.14], 0.06);
  kit.setPaint({ colour: HULL }).slabs([0.0, 1.46, 0.52], [0.62, 0.22, 0.2]);
  kit.setPaint({ colour: GUN }).tubes([0.28, 1.46, 0.52], [0.82, 1.46, 0.52], 0.06);
  // swept fins
  kit
    .setPaint({ colour: PALE, team: 1 })
    .slabs([-0.58, 1.74, 0.3], [0.5, 0.5, 0.06], { top: [0.5, 1], shift: -0.22, turn: [0.35, 0, 0], chamfer: 0.02 });
  kit.setPaint({ colour: VENT, glow: Glow.VENT }).slabs([-0.56, 1.42, 0.16], [0.1, 0.22, 0.2], { chamfer: 0.02 });
  return kit.build();
}

function scout(fine: boolean): BufferGeometry {
  const kit = new MechKit(fine);
  legs(kit, {
    hip: [0, 0.86, 0.24],
    knee: [-0.3, 0.5, 0.32],
    ankle: [0.06, 0.12, 0.38],
    thick: 0.17,
    wide: 0.16,
    flex: 1.05,
    foot: [0.42, 0.13, 0.22],
    shield: 0.4,
  });
  kit.setPaint({ colour: FRAME }).slab([0, 0.88, 0], [0.34, 0.2, 0.42]);
  kit
    .setPaint({ colour: PALE, team: 1 })
    .slab([0.04, 1.13, 0], [0.72, 0.46, 0.6], { top: [0.62, 0.62], chamfer: 0.14 });
  kit.setPaint({ colour: DARK }).tube([0.34, 1.12, 0], [0.46, 1.12, 0], 0.15, 0.13, 10);
  kit.setPaint({ colour: 0xff8ae0, glow: Glow.EYE }).tube([0.45, 1.12, 0], [0.49, 1.12, 0], 0.1, 0.07, 10);
  kit.setPaint({ colour: HULL }).slabs([-0.05, 1.1, 0.36], [0.42, 0.2, 0.12]);
  kit.setPaint({ colour: VENT, glow: Glow.VENT }).slab([-0.34, 1.12, 0], [0.08, 0.22, 0.3], { chamfer: 0.02 });
  // whip antenna
  kit.setPaint({ colour: PALE }).tube([-0.28, 1.25, 0.2], [-0.5, 2.5, 0.26], 0.025, 0.012, 5);
  kit.setPaint({ colour: 0xffffff, glow: Glow.LAMP }).slab([-0.5, 2.52, 0.26], [0.07, 0.07, 0.07], { chamfer: 0.01 });
  // dish on a mast
  const mast: Point = [-0.05, 0, -0.04];
  kit.setPaint({ colour: FRAME }).tube([mast[0], 1.3, mast[2]], [mast[0], 1.58, mast[2]], 0.05);
  kit.setPaint({ bone: Bone.DISH, hip: mast, colour: PALE, team: 0.35 });
  kit.tube([mast[0] + 0.02, 1.66, mast[2]], [mast[0] + 0.16, 1.76, mast[2]], 0.12, 0.44, 12);
  kit
    .changePaint({ colour: DARK, team: 0 })
    .tube([mast[0] + 0.165, 1.762, mast[2]], [mast[0] + 0.17, 1.766, mast[2]], 0.4, 0.36, 12);
  kit
    .changePaint({ colour: EYE, glow: Glow.EYE })
    .tube([mast[0] + 0.17, 1.765, mast[2]], [mast[0] + 0.4, 1.93, mast[2]], 0.02, 0.045, 6);
  return kit.build();
}

export const MODELS: Record<ChassisName, MechModel> = {
  scout: { build: scout, gait: { stride: 2.2, swing: 0.72, bob: 0.07 }, muzzle: [0.5, 1.12, 0] },
  light: { build: light, gait: { stride: 2.8, swing: 0.72, bob: 0.08 }, muzzle: [0.95, 1.35, 0] },
  medium: { build: medium, gait: { stride: 3.8, swing: 0.6, bob: 0.1 }, muzzle: [1.4, 1.76, -0.6] },
  heavy: { build: heavy, gait: { stride: 4.6, swing: 0.45, bob: 0.13 }, muzzle: [1.45, 2.7, 0.5] },
};
