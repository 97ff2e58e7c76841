// A page without a browser, as far as panels need one to show their texts.

class FakeElement {
  className = "";
  title = "";
  hidden = false;
  tabIndex = 0;
  scrollTop = 0;
  clientWidth = 0;
  clientHeight = 0;
  children: FakeElement[] = [];
  readonly dataset: Record<string, string> = {};
  readonly style: Record<string, string> = {};
  readonly attributes: Record<string, string> = {};
  private words = "";
  readonly classList = {
    contains: (name: string) => this.className.split(" ").includes(name),
    add: (name: string) => this.classList.toggle(name, true),
    remove: (name: string) => this.classList.toggle(name, false),
    toggle: (name: string, on = !this.classList.contains(name)) => {
      const others = this.className.split(" ").filter((each) => each !== name && each !== "");
      this.className = (on ? [...others, name] : others).join(" ");
    },
  };

  get textContent(): string {
    return this.words + this.children.map(({ textContent }) => textContent).join("");
  }
  set textContent(text: string) {
    [this.words, this.children] = [text, []];
  }
  append(...children: (FakeElement | string)[]): void {
    this.children.push(...children.map((child) => (typeof child === "string" ? textOf(child) : child)));
  }
  replaceChildren(...children: FakeElement[]): void {
    this.children = children;
  }
  setAttribute(name: string, value: string): void {
    if (name === "class") this.className = value;
    else this.attributes[name] = value;
  }
  getAttribute(name: string): string | null {
    return this.attributes[name] ?? null;
  }
  readonly firstElementChild = null;
  insertBefore(child: FakeElement): void {
    this.children.push(child);
  }
  addEventListener(): void {}
  matches(): boolean {
    return false;
  }
}

function textOf(words: string): FakeElement {
  const node = new FakeElement();
  node.textContent = words;
  return node;
}

function find(root: FakeElement, name: string): FakeElement[] {
  const below = root.children.flatMap((child) => find(child, name));
  return root.classList.contains(name) ? [root, ...below] : below;
}

/** Return functions that put the page in place of the browser's, take it away, and find elements by class. */
export function pageParts() {
  const names = ["document", "window", "HTMLElement"] as const;
  const make = () => new FakeElement();
  const globals = globalThis as Record<string, unknown>;
  const before = names.map((name) => globals[name]);
  return {
    install: () => {
      globals.document = { createElement: make, createElementNS: make, activeElement: null, hidden: false };
      globals.window = { devicePixelRatio: 1 };
      globals.HTMLElement = FakeElement;
    },
    remove: () => names.forEach((name, i) => (globals[name] = before[i])),
    find: (root: unknown, name: string) => find(root as FakeElement, name),
  };
}
