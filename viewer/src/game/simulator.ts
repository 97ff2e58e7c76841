// The simulator as WebAssembly: the arrays and programs of echelon/web/build.py, by name.

export interface Description {
  game: string;
  sim_version: number;
  dt: number; // duration of a tick [s]
  ticks_per_step: number;
  actions: string[]; // of the action vector of a mech
  programs: string[];
  arrays: Record<string, { dtype: string; shape: number[] }>;
  map: string[]; // arrays that a map file has, in its order
}

const TYPES = {
  float32: Float32Array,
  int32: Int32Array,
  uint32: Uint32Array,
  uint16: Uint16Array,
  uint8: Uint8Array,
  int8: Int8Array,
};
const BYTES: Record<string, number> = { uint64: 8 };
for (const [dtype, type] of Object.entries(TYPES)) BYTES[dtype] = type.BYTES_PER_ELEMENT;

export type Values = InstanceType<(typeof TYPES)[keyof typeof TYPES]>;

/** A module that returns a vector of 128 bits. */
const SIMD = Uint8Array.of(
  ...[0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0],
  ...[10, 10, 1, 8, 0, 65, 0, 253, 15, 253, 98, 11],
);
const NO_SIMD =
  "this browser has no WebAssembly with SIMD, expected Chrome 91, Firefox 89, Safari 16.4 or newer; " +
  "recorded matches play";
const NO_MEMORY = "this device has too little memory left for the game; close other pages, then load this one again";

/** What a match begins with. */
export interface Begin {
  map: Uint8Array; // a map file
  seed: number; // of the match, from 0
  scripts: readonly number[]; // scripted pilot of each mech, 0 none
  isTutorial?: boolean; // whether it has the limits of the tutorial
}

/** One match of a game, between two programs. */
export class Simulator {
  isTutorial = false;
  private readonly initial: ArrayBuffer;

  private constructor(
    readonly description: Description,
    private readonly exports: WebAssembly.Exports,
  ) {
    this.initial = this.memory.slice(0);
  }

  static async load(module: BufferSource, description: Description): Promise<Simulator> {
    if (!globalThis.WebAssembly?.validate(SIMD)) throw new Error(NO_SIMD);
    const made = WebAssembly.instantiate(module, {}).catch((error: unknown) => {
      throw error instanceof RangeError ? new Error(NO_MEMORY) : error;
    });
    return new Simulator(description, (await made).instance.exports);
  }

  private get memory(): ArrayBuffer {
    return (this.exports.memory as WebAssembly.Memory).buffer;
  }

  /** Return a view of all elements of an array, the last axis fastest; of elements with 8 bytes, their bytes. */
  array(name: string): Values {
    const { dtype } = this.layout(name);
    const Type = TYPES[dtype as keyof typeof TYPES] ?? Uint8Array;
    const bytes = this.bytes(name);
    return new Type(bytes.buffer, bytes.byteOffset, bytes.length / Type.BYTES_PER_ELEMENT);
  }

  run(program: string): void {
    const entry = this.exports[`run_${this.isTutorial && program === "end_step" ? "tutorial_step" : program}`];
    if (!(entry instanceof Function))
      throw new Error(`program "${program}" is unknown, expected one of ${this.description.programs.join(", ")}`);
    entry();
  }

  /** Begin a match; nothing of an earlier one is left. */
  start({ map, seed, scripts, isTutorial = false }: Begin): void {
    const parts = this.description.map.map((name) => this.bytes(name));
    const expected = parts.reduce((sum, part) => sum + part.length, 0);
    if (map.length !== expected) throw new Error(`map file has ${map.length} bytes, expected ${expected}`);
    new Uint8Array(this.memory).set(new Uint8Array(this.initial));
    let at = 0;
    for (const part of parts) part.set(map.subarray(at, (at += part.length)));
    this.array("forced_seed")[0] = seed;
    this.array("forced_slot")[0] = 0;
    this.array("script").set(scripts);
    this.isTutorial = isTutorial;
    this.run("reset");
  }

  private layout(name: string) {
    const found = this.description.arrays[name];
    if (!found) throw new Error(`array "${name}" is unknown, expected one of the game's description`);
    return found;
  }

  private bytes(name: string): Uint8Array<ArrayBuffer> {
    const { dtype, shape } = this.layout(name);
    const count = shape.reduce((product, edge) => product * edge, BYTES[dtype]);
    return new Uint8Array(this.memory, (this.exports[`array_${name}`] as WebAssembly.Global).value, count);
  }
}
