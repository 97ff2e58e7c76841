// A policy's network in WebAssembly: what echelon/web/policy.py writes, with the recurrent states of all mechs.

/** Widths and addresses in bytes of what the page reads and writes, and of the policy's program. */
export interface PolicyDescription {
  mechs: number; // at most
  widths: Record<"obs" | "memory" | "noise" | "action", number>; // columns of a mech's row
  places: Record<"obs" | "memory" | "noise" | "action" | "at", number>; // first rows; at: the rows to compute
  changing: Record<"count" | "noise", number[]>; // arguments with the number of those rows, and noise or 0
  program: [address: number, parts: number];
  parts: [address: number, halves: boolean, bytes: number][]; // in the order of the weights
  end: number;
}

interface Exports extends WebAssembly.Exports {
  memory: WebAssembly.Memory;
  act(program: number, parts: number, rows: number): void;
}

const PAGE = 65536; // bytes
const NUMBER = 4;
const INDEX = 8;

export class Policy {
  private draw: (() => number) | null = null;

  private constructor(
    readonly description: PolicyDescription,
    private readonly exports: Exports,
  ) {}

  static async load(module: BufferSource, description: PolicyDescription, weights: ArrayBuffer): Promise<Policy> {
    const expected = description.parts.reduce((sum, [, , bytes]) => sum + bytes, 0);
    if (weights.byteLength !== expected)
      throw new Error(`weights have ${weights.byteLength} bytes, expected ${expected}; try to load the page again`);
    const { exp, log, tanh } = Math;
    const { instance } = await WebAssembly.instantiate(module, { math: { exp, log, tanh, erfc } });
    const exports = instance.exports as Exports;
    exports.memory.grow(Math.ceil((description.end - exports.memory.buffer.byteLength) / PAGE));
    let at = 0;
    for (const [address, halves, bytes] of description.parts) {
      const part = weights.slice(at, (at += bytes));
      if (halves) widen(new Uint16Array(part), new Float32Array(exports.memory.buffer, address, bytes / 2));
      else new Uint8Array(exports.memory.buffer, address).set(new Uint8Array(part));
    }
    return new Policy(description, exports);
  }

  /** Begin a match: no mech remembers anything. Actions are samples of the seed, without one the mean. */
  start(seed?: number): void {
    this.rows("memory").fill(0);
    this.draw = seed === undefined ? null : normal(seed);
    const address = this.draw ? this.description.places.noise : 0;
    for (const cell of this.description.changing.noise) this.integers(cell, 1)[0] = address;
  }

  /** Write the actions `[M, A]` of mechs, given all `observations [M, D]`; the other mechs keep theirs. */
  act(mechs: readonly number[], observations: Float32Array, actions: Float32Array): void {
    const { mechs: most, widths, places, changing, program } = this.description;
    const count = observations.length / widths.obs;
    if (count !== actions.length / widths.action || count > most)
      throw new Error(
        `policy gets ${observations.length} observations and ${actions.length} action columns, ` +
          `expected ${widths.obs} and ${widths.action} for each of at most ${most} mechs`,
      );
    const [from, noise, to] = [this.rows("obs"), this.rows("noise"), this.rows("action")];
    const at = this.integers(places.at, (mechs.length * INDEX) / NUMBER);
    for (const [i, mech] of mechs.entries()) {
      at[(i * INDEX) / NUMBER] = mech;
      from.set(observations.subarray(mech * widths.obs, (mech + 1) * widths.obs), mech * widths.obs);
      if (this.draw) for (let c = 0; c < widths.noise; c++) noise[mech * widths.noise + c] = this.draw();
    }
    for (const cell of changing.count) this.integers(cell, 1)[0] = mechs.length;
    this.exports.act(...program, mechs.length);
    for (const mech of mechs)
      actions.set(to.subarray(mech * widths.action, (mech + 1) * widths.action), mech * widths.action);
  }

  /** Return a copy of the recurrent states of all mechs. */
  states(): Float32Array {
    return this.rows("memory").slice();
  }

  restore(states: Float32Array): void {
    this.rows("memory").set(states);
  }

  private rows(name: "obs" | "memory" | "noise" | "action"): Float32Array {
    const { mechs, widths, places } = this.description;
    return new Float32Array(this.exports.memory.buffer, places[name], mechs * widths[name]);
  }

  private integers(address: number, count: number): Int32Array {
    return new Int32Array(this.exports.memory.buffer, address, count);
  }
}

/** Write numbers of half precision, which are finite, in single precision. */
function widen(halves: Uint16Array, into: Float32Array): void {
  const bits = new Uint32Array(into.buffer, into.byteOffset, into.length);
  for (const [i, half] of halves.entries()) {
    bits[i] = ((half & 0x8000) << 16) | ((half & 0x7fff) << 13);
    into[i] *= 2 ** 112; // between the biases of the exponents
  }
}

/** Return a generator of standard normal numbers: those of Box and Muller from a hash of a counter. */
function normal(seed: number): () => number {
  let counter = seed | 0;
  const uniform = () => {
    let h = Math.imul((counter = (counter + 0x9e3779b9) | 0) ^ (counter >>> 16), 0x21f0aaad);
    h = Math.imul(h ^ (h >>> 15), 0x735a2d97);
    return ((h ^ (h >>> 15)) >>> 0) / 2 ** 32;
  };
  return () => Math.sqrt(-2 * Math.log(1 - uniform())) * Math.cos(2 * Math.PI * uniform());
}

/** Return the complementary error function, within 2e-7 (Abramowitz and Stegun, 7.1.26). */
function erfc(x: number): number {
  const t = 1 / (1 + 0.3275911 * Math.abs(x));
  const series = [1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592];
  const tail = series.reduce((sum, term) => sum * t + term, 0) * t * Math.exp(-x * x);
  return x < 0 ? 2 - tail : tail;
}
