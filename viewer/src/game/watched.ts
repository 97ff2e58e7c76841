// A match that nobody flies: a policy against scripted pilots, recorded as it is played.

import { type Game, type NewMatch, begin } from "./match";

const GROWN_STEPS = 16; // environment steps between two looks at the recording

/** Play a match to its end; `grown` gets the recording so far, at last whole. */
export function playWatched(game: Game, match: NewMatch, grown: (data: Uint8Array, over: boolean) => void): void {
  const { crew, recording, arrays } = begin(game, match, []);
  for (let steps = 1; arrays.over[0] === 0; steps++) {
    crew.act();
    game.simulator.run("decision");
    recording.afterStep();
    if (steps % GROWN_STEPS === 0) grown(recording.soFar, false);
  }
  grown(recording.finish(), true);
}
