// Requests to the server, from the page and from workers.

/** A failed request or call; the message is shown to the user. */
export class ApiError extends Error {
  /** `status` is the HTTP status, 0 if the server did not respond, or `DAMAGED` for data that cannot be read. */
  constructor(
    readonly status: number,
    detail: string,
  ) {
    super(detail);
  }
}

/** Status of data that is damaged: no retry helps. */
export const DAMAGED = 422;

const GZIP = [0x1f, 0x8b]; // first bytes of compressed data

/** Return the response to a request; throws `ApiError` for any other than success. */
export async function request(url: string, signal?: AbortSignal): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(url, { signal });
  } catch {
    throw new ApiError(0, "The server does not respond. Is `echelon serve` still running?");
  }
  if (response.ok) return response;
  const problem = (await response.json().catch(() => ({}))) as { detail?: string; title?: string };
  throw new ApiError(
    response.status,
    problem.detail ?? problem.title ?? `The server returned status ${response.status}.`,
  );
}

/** Bytes of bodies that have arrived, of how many their responses have announced. */
export const received = { bytes: 0, total: 0, report: (): void => undefined };

/** Return the body of a response; throws `ApiError`, also if the connection breaks within the body. */
export async function requestBytes(url: string): Promise<Uint8Array<ArrayBuffer>> {
  const response = await request(url);
  received.total += Number(response.headers.get("content-length"));
  const parts: Uint8Array<ArrayBuffer>[] = [];
  try {
    const reader = response.body?.getReader();
    for (let part = await reader?.read(); part?.value; part = await reader?.read()) {
      parts.push(part.value);
      received.bytes += part.value.length;
      received.report();
    }
  } catch {
    throw new ApiError(0, "The connection to the server was interrupted.");
  }
  return new Uint8Array(await new Blob(parts).arrayBuffer());
}

/** Return the body of a response, unpacked if it is compressed; hosts that announce that have unpacked it. */
export async function requestUnpacked(url: string): Promise<Uint8Array<ArrayBuffer>> {
  const bytes = await requestBytes(url);
  if (GZIP.some((byte, i) => bytes[i] !== byte)) return bytes;
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}
