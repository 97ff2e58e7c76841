// An agent in JavaScript (npm install @msgpack/msgpack): turn to the nearest hostile and fire, else drive to the zone.
//   echelon agent check "node agent.mjs"
import { decode, encode } from "@msgpack/msgpack";

let column, actions;

function answer(message) {
  const packed = encode(message), head = Buffer.alloc(4);
  head.writeUInt32BE(packed.length);
  process.stdout.write(Buffer.concat([head, packed]));
}

function fly(see) {
  const action = new Map(actions.map((name) => [name, 0]));
  let ahead = see("ego.zone_ahead"), left = see("ego.zone_left"), nearest = Infinity, target = -1;
  for (let n = 0; n < 5; n++) {
    const distance = Math.hypot(see(`contacts[${n}].ahead`), see(`contacts[${n}].left`));
    if (see(`contacts[${n}].hostile`) && distance < nearest) [nearest, target] = [distance, n];
  }
  if (target >= 0) {
    [ahead, left] = [see(`contacts[${target}].ahead`), see(`contacts[${target}].left`)];
    action.set(`target_${target}`, 1);
    if (see("ego.heat") < 0.7) for (const trigger of ["primary", "secondary", "tertiary"]) action.set(trigger, 1);
  }
  const turn = Math.atan2(left, ahead);
  action.set("yaw_rate", Math.max(-1, Math.min(1, 2 * turn)));
  if (!see("ego.in_zone")) action.set("forward", Math.max(0, Math.cos(turn)));
  return actions.map((name) => action.get(name));
}

function take(message) {
  if (message.type === "hello") {
    column = new Map(message.columns.map((name, n) => [name, n]));
    actions = message.actions;
    answer({ type: "hello" });
  } else if (message.type === "act") {
    const bytes = message.observations, view = new DataView(bytes.buffer, bytes.byteOffset);
    const see = (mech) => (name) => view.getFloat32(4 * (mech * column.size + column.get(name)), true);
    answer({ decision: message.decision, actions: message.mechs.map((_, mech) => fly(see(mech))) });
  }
}

let waiting = Buffer.alloc(0);
process.stdin.on("data", (chunk) => {
  waiting = Buffer.concat([waiting, chunk]);
  while (waiting.length >= 4 && waiting.length >= 4 + waiting.readUInt32BE()) {
    const end = 4 + waiting.readUInt32BE();
    take(decode(waiting.subarray(4, end)));
    waiting = waiting.subarray(end);
  }
});
