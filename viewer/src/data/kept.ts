// Answers that are kept for when they are wanted again.

/** The answers that were wanted last, at most so many; one that failed is asked for anew. */
export class Kept<Answer> {
  private readonly answers = new Map<string, Promise<Answer>>(); // in the order in which they were last wanted

  constructor(private readonly most: number) {}

  /** The answer under a name, asked for where it is not known. */
  get(name: string, ask: () => Promise<Answer>): Promise<Answer> {
    const answer = this.answers.get(name) ?? ask();
    this.answers.delete(name);
    this.answers.set(name, answer);
    answer.catch(() => this.answers.get(name) === answer && this.answers.delete(name));
    for (const oldest of this.answers.keys()) {
      if (this.answers.size <= this.most) break;
      this.answers.delete(oldest);
    }
    return answer;
  }
}
