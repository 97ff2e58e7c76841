// The soundscape of a match, synthesised with Web Audio: cues while it plays forward, and wind. Off by default; nothing
// is created before it is switched on.

import { followsMech } from "../control";
import type { ViewerState } from "../state";
import { type Cue, VOICES, cuesBetween } from "./cues";

const MOST_VOICES = 16; // sounds at the same time
const LONGEST_STEP_S = 1; // a longer step of the cursor is a seek, which is silent [s of the match]
const FASTEST = 4; // highest speed with sound
const WIND = { gain: 0.03, low: 260 } as const; // loudness, and frequency of its low-pass filter [Hz]
const FADE_S = 0.15;
const SILENT = 0.0001; // end of exponential ramps, which cannot reach 0

interface Graph {
  context: AudioContext;
  master: GainNode;
  wind: GainNode;
  noise: AudioBuffer;
}

function noiseOf(context: AudioContext): AudioBuffer {
  const buffer = context.createBuffer(1, context.sampleRate, context.sampleRate);
  const samples = buffer.getChannelData(0);
  for (let i = 0; i < samples.length; i++) samples[i] = Math.random() * 2 - 1;
  return buffer;
}

function makeGraph(): Graph {
  const context = new AudioContext();
  const [master, wind, limiter] = [context.createGain(), context.createGain(), context.createDynamicsCompressor()];
  master.gain.value = 0;
  master.connect(limiter).connect(context.destination);
  const noise = noiseOf(context);
  const [air, low] = [context.createBufferSource(), context.createBiquadFilter()];
  Object.assign(air, { buffer: noise, loop: true });
  low.frequency.value = WIND.low;
  wind.gain.value = WIND.gain;
  air.connect(low).connect(wind).connect(master);
  air.start();
  return { context, master, wind, noise };
}

export class Soundscape {
  private graph: Graph | null = null;
  private tick = NaN; // cursor at the previous frame
  private voices = 0; // sounds that play
  started = 0;

  constructor() {
    // browsers start audio only after the user has done something
    for (const name of ["pointerdown", "keydown"])
      window.addEventListener(name, () => void this.graph?.context.resume(), { passive: true });
  }

  update(state: ViewerState): void {
    const { match, tick, playing, flying, speed, sound, volume } = state;
    const before = this.tick;
    this.tick = match ? tick : NaN;
    if (sound && !this.graph) this.graph = makeGraph();
    if (!this.graph) return;
    const runs = sound && match !== null && (playing || flying) && !document.hidden;
    const { context, master } = this.graph;
    master.gain.setTargetAtTime(runs ? volume : 0, context.currentTime, FADE_S / 3);
    const step = tick - before;
    if (!runs || !match?.chunk || speed <= 0 || speed > FASTEST) return;
    if (!(step > 0) || step > LONGEST_STEP_S * FASTEST * match.header.tick_hz) return;
    // the azimuth of a camera that follows a mech is relative to its heading
    const heading = followsMech(state.camera.mode) && state.selected >= 0 ? match.poses.yaw[state.selected] : 0;
    const camera = { ...state.camera, azimuth: state.camera.azimuth + heading };
    for (const cue of cuesBetween(match.chunk.events, match.header, before, tick, camera)) this.play(cue);
  }

  private play({ voice, gain, pan }: Cue): void {
    if (!this.graph || this.voices >= MOST_VOICES) return;
    const { context, master, noise } = this.graph;
    const { wave, from, to, seconds } = VOICES[voice];
    const [now, level, side] = [context.currentTime, context.createGain(), context.createStereoPanner()];
    level.gain.setValueAtTime(gain, now);
    level.gain.exponentialRampToValueAtTime(SILENT, now + seconds);
    side.pan.value = pan;
    const ramp = (frequency: AudioParam) => {
      frequency.setValueAtTime(from, now);
      frequency.exponentialRampToValueAtTime(to, now + seconds);
    };
    let source: AudioScheduledSourceNode;
    if (wave === "noise") {
      const filter = context.createBiquadFilter();
      ramp(filter.frequency);
      source = Object.assign(context.createBufferSource(), { buffer: noise, loop: true });
      source.connect(filter).connect(level);
    } else {
      const oscillator = Object.assign(context.createOscillator(), { type: wave });
      ramp(oscillator.frequency);
      source = oscillator;
      source.connect(level);
    }
    level.connect(side).connect(master);
    source.onended = () => {
      this.voices--;
      side.disconnect();
    };
    source.start(now);
    source.stop(now + seconds);
    this.voices++;
    this.started++;
  }
}
