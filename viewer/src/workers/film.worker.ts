// Worker that encodes the frames of a film as MP4 or WebM.

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
import type { FilmCalls } from "./messages";

const BITS_PER_PIXEL = 0.11; // per frame
const CHOICES = [
  ["mp4", "avc"],
  ["webm", "vp9"],
  ["webm", "vp8"],
] as const;

let output: Output<Mp4OutputFormat | WebMOutputFormat, BufferTarget>;
let source: VideoSampleSource;
let rate = 0; // frames per second

serve<FilmCalls>({
  start: async ({ width, height, fps, formats }) => {
    const bitrate = Math.round(width * height * fps * BITS_PER_PIXEL);
    for (const [format, codec] of CHOICES) {
      if (!formats.includes(format) || !(await canEncodeVideo(codec, { width, height, bitrate }))) continue;
      output = new Output({
        format: format === "mp4" ? new Mp4OutputFormat() : new WebMOutputFormat(),
        target: new BufferTarget(),
      });
      source = new VideoSampleSource({ codec, bitrate, keyFrameInterval: 2 });
      output.addVideoTrack(source, { frameRate: fps });
      await output.start();
      rate = fps;
      return [format];
    }
    throw new Error(`this browser cannot encode ${formats.join(" or ")}`);
  },
  frame: async ({ bitmap, number }) => {
    const sample = new VideoSample(bitmap, { timestamp: number / rate, duration: 1 / rate });
    await source.add(sample);
    sample.close();
    bitmap.close();
    return [null];
  },
  finish: async () => {
    await output.finalize();
    if (!output.target.buffer) throw new Error("the encoder returned nothing");
    return [output.target.buffer, [output.target.buffer]];
  },
});
