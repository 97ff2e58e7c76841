// Types of the part of gifenc that the film worker uses; the package has none.
declare module "gifenc" {
  interface Stream {
    writeFrame(index: Uint8Array, width: number, height: number, options: { palette: number[][]; delay: number }): void;
    finish(): void;
    bytes(): Uint8Array;
  }
  export function GIFEncoder(): Stream;
  export function quantize(rgba: Uint8ClampedArray, colours: number): number[][];
  export function applyPalette(rgba: Uint8ClampedArray, palette: number[][]): Uint8Array;
}
