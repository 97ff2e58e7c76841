// Typed calls to workers: a request returns a promise of its result, or throws an `ApiError` with message and status of
// the worker's error.

import { ApiError, received } from "../data/request";
import type { Calls } from "./messages";

interface Waiting {
  resolve(value: unknown): void;
  reject(error: Error): void;
}

/** Messages to a worker and back. */
export interface Request {
  number: number; // matches a result with its request
  call: string;
  args: unknown;
}
export type Answer =
  | { number: number; value: unknown }
  | { number: number; error: string; status: number }
  | { received: { bytes: number; total: number } };

export class WorkerLink<Table extends Calls<Table>> {
  private waiting = new Map<number, Waiting>();
  private next = 0;
  private broken: Error | null = null; // why the worker never answers
  /** What has arrived of the worker's own requests. */
  received = { bytes: 0, total: 0 };

  constructor(private readonly worker: Worker) {
    worker.onmessage = (message: MessageEvent<Answer>) => this.settle(message.data);
    worker.onerror = (event) => this.fail(new Error(event.message || "cannot start a worker"));
  }

  /** Call a function of the worker; buffers in `transfer` are moved instead of copied. */
  request<Name extends keyof Table & string>(
    call: Name,
    args: Table[Name]["args"],
    transfer: Transferable[] = [],
  ): Promise<Table[Name]["value"]> {
    if (this.broken) return Promise.reject(this.broken);
    const number = this.next++;
    return new Promise((resolve, reject) => {
      this.waiting.set(number, { resolve: resolve as (value: unknown) => void, reject });
      this.worker.postMessage({ number, call, args } satisfies Request, transfer);
    });
  }

  /** Terminate the worker; pending calls are rejected. */
  close(): void {
    this.worker.terminate();
    this.fail(new Error("worker closed"));
  }

  private settle(answer: Answer): void {
    if ("received" in answer) return void (this.received = answer.received);
    const waiting = this.waiting.get(answer.number);
    this.waiting.delete(answer.number);
    if ("error" in answer) waiting?.reject(new ApiError(answer.status, answer.error));
    else waiting?.resolve(answer.value);
  }

  private fail(error: Error): void {
    this.broken = error;
    for (const waiting of this.waiting.values()) waiting.reject(error);
    this.waiting.clear();
  }
}

type Result<Value> = [value: Value, transfer?: Transferable[]];
type Handler<Call extends { args: unknown; value: unknown }> = (
  args: Call["args"],
) => Result<Call["value"]> | Promise<Result<Call["value"]>>;
type Handlers<Table extends Calls<Table>> = { [Name in keyof Table]: Handler<Table[Name]> };

/** Serve calls inside a worker; `statusOf` returns the status of an error that is no `ApiError`. */
export function serve<Table extends Calls<Table>>(
  handlers: Handlers<Table>,
  statusOf: (error: unknown) => number = () => 0,
): void {
  const scope = self as unknown as {
    onmessage: (message: MessageEvent<Request>) => Promise<void>;
    postMessage(answer: Answer, transfer?: Transferable[]): void;
  };
  received.report = () => scope.postMessage({ received: { bytes: received.bytes, total: received.total } });
  scope.onmessage = async ({ data: { number, call, args } }) => {
    try {
      const [value, transfer] = await handlers[call as keyof Table](args as never);
      scope.postMessage({ number, value }, transfer ?? []);
    } catch (error) {
      const status = error instanceof ApiError ? error.status : statusOf(error);
      scope.postMessage({ number, error: error instanceof Error ? error.message : String(error), status });
    }
  };
}
