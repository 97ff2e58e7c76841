// LRU cache of asynchronous results.

/** The results of the most recently used keys; a failed request is not cached. */
export class PromiseCache<Result> {
  private readonly results = new Map<string, Promise<Result>>(); // least recently used first

  constructor(private readonly capacity: number) {}

  get(key: string, request: () => Promise<Result>): Promise<Result> {
    const result = this.results.get(key) ?? request();
    this.results.delete(key);
    this.results.set(key, result);
    result.catch(() => this.results.get(key) === result && this.results.delete(key));
    const [oldest] = this.results.keys();
    if (this.results.size > this.capacity) this.results.delete(oldest);
    return result;
  }
}
