// Worker that encodes the frames of a film as MP4, WebM or GIF.

import { GIFEncoder, applyPalette, quantize } from "gifenc";
import {
  BufferTarget,
  Mp4OutputFormat,
  Output,
  VideoSample,
  VideoSampleSource,
  WebMOutputFormat,
  canEncodeVideo,
} from "mediabunny";
import { serve } from "./link";
import type { FilmCalls, FilmFormat } from "./messages";

const BITS_PER_PIXEL = 0.11; // of a video, per frame
const GIF_COLOURS = 128;
const CHOICES = [
  ["mp4", "avc"],
  ["webm", "vp9"],
  ["webm", "vp8"],
] as const;

/** Takes frames and returns the file. */
interface Encoder {
  add(frame: ImageBitmap, number: number, cut: boolean): Promise<void>;
  finish(): Promise<ArrayBuffer>;
}

let encoder: Encoder | null = null;

/** Return an encoder of the first of some formats that this browser can encode, or null. */
async function videoEncoder(
  width: number,
  height: number,
  fps: number,
  formats: readonly FilmFormat[],
): Promise<[FilmFormat, Encoder] | null> {
  const bitrate = Math.round(width * height * fps * BITS_PER_PIXEL);
  for (const [ending, codec] of CHOICES) {
    if (!formats.includes(ending) || !(await canEncodeVideo(codec, { width, height, bitrate }))) continue;
    const target = new BufferTarget();
    const format = ending === "mp4" ? new Mp4OutputFormat() : new WebMOutputFormat();
    const output = new Output({ format, target });
    const source = new VideoSampleSource({ codec, bitrate, keyFrameInterval: 2 });
    output.addVideoTrack(source, { frameRate: fps });
    await output.start();
    const made: Encoder = {
      add: async (frame, number) => {
        const sample = new VideoSample(frame, { timestamp: number / fps, duration: 1 / fps });
        await source.add(sample);
        sample.close();
      },
      finish: async () => {
        await output.finalize();
        if (!target.buffer) throw new Error("the encoder returned nothing");
        return target.buffer;
      },
    };
    return [ending, made];
  }
  return null;
}

/** Return an encoder of GIFs; the colours are chosen again after every cut. */
function gifEncoder(width: number, height: number, fps: number): Encoder {
  const gif = GIFEncoder();
  const canvas = new OffscreenCanvas(width, height);
  const brush = canvas.getContext("2d", { willReadFrequently: true });
  if (!brush) throw new Error("no 2D canvas");
  let palette: number[][] = [];
  return {
    add: async (frame, _, cut) => {
      brush.drawImage(frame, 0, 0, width, height);
      const { data } = brush.getImageData(0, 0, width, height);
      if (cut) palette = quantize(data, GIF_COLOURS);
      gif.writeFrame(applyPalette(data, palette), width, height, { palette, delay: Math.round(1000 / fps) });
    },
    finish: async () => {
      gif.finish();
      return gif.bytes().slice().buffer as ArrayBuffer;
    },
  };
}

serve<FilmCalls>({
  start: async ({ width, height, fps, format: wanted }) => {
    const formats = wanted === "video" ? (["mp4", "webm"] as const) : [wanted];
    const video = await videoEncoder(width, height, fps, formats);
    if (!video && wanted !== "gif") throw new Error(`this browser cannot encode ${wanted}; try a GIF`);
    const [format, made] = video ?? (["gif", gifEncoder(width, height, fps)] as const);
    encoder = made;
    return [{ format }];
  },
  frame: async ({ bitmap, number, cut }) => {
    await encoder?.add(bitmap, number, cut);
    bitmap.close();
    return [null];
  },
  finish: async () => {
    if (!encoder) throw new Error("no film was started");
    const bytes = await encoder.finish();
    return [bytes, [bytes]];
  },
});
