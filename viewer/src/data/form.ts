// Checks of values from a file or a server against a form, so that code behind it can trust their types and ranges.

import type { Form } from "../protocol.gen";
import { ReplayError } from "./payload";

const MAX_SHOWN = 40; // characters of a value in a message

function shown(value: unknown): string {
  if (Array.isArray(value)) return `a list of ${value.length}`;
  if (value !== null && typeof value === "object") return "a map";
  return String(value).slice(0, MAX_SHOWN);
}

/** Return what a form expects of a single value. */
function expectation(form: Form): string {
  const { type, minimum, maximum, exclusiveMinimum, minItems, maxItems, maxLength, pattern } = form;
  const low = exclusiveMinimum === undefined ? `from ${minimum} to` : `above ${exclusiveMinimum} and at most`;
  const range = maximum === undefined ? "" : ` ${low} ${maximum}`;
  switch (type) {
    case "integer":
      return `an integer${range}`;
    case "number":
      return `a number${range}`;
    case "string":
      return pattern ? `a text that matches ${pattern}` : `a text of at most ${maxLength} characters`;
    case "array":
      return maxItems === undefined ? "a list" : `a list of ${minItems ?? 0} to ${maxItems}`;
    case "object":
      return "a map";
    case "boolean":
      return "true or false";
  }
}

function fits(value: unknown, form: Form): boolean {
  const { minimum = -Infinity, maximum = Infinity, exclusiveMinimum = -Infinity } = form;
  switch (form.type) {
    case "integer":
    case "number": {
      const inRange = typeof value === "number" && value >= minimum && value <= maximum && value > exclusiveMinimum;
      return inRange && (form.type === "number" || Number.isInteger(value));
    }
    case "string": {
      const { minLength = 0, maxLength = Infinity, pattern } = form;
      if (typeof value !== "string" || value.length < minLength || value.length > maxLength) return false;
      return pattern === undefined || new RegExp(pattern).test(value);
    }
    case "array":
      return (
        Array.isArray(value) && value.length >= (form.minItems ?? 0) && value.length <= (form.maxItems ?? Infinity)
      );
    case "object":
      return value !== null && typeof value === "object" && !Array.isArray(value) && !ArrayBuffer.isView(value);
    case "boolean":
      return typeof value === "boolean";
  }
}

/** Throw a `ReplayError` that names the first part of a value without the expected form; `what` names the whole. */
export function checkForm(value: unknown, form: Form, what: string, path = ""): void {
  if (!fits(value, form))
    throw new ReplayError(`${what} says ${path || "it"} is ${shown(value)}, expected ${expectation(form)}`);
  if (form.items) {
    const { items } = form;
    (value as unknown[]).forEach((item, i) => checkForm(item, items, what, `${path}[${i}]`));
  }
  for (const [name, part] of Object.entries(form.properties ?? {})) {
    const inner = path ? `${path}.${name}` : name;
    const record = value as Record<string, unknown>;
    if (Object.hasOwn(record, name)) checkForm(record[name], part, what, inner);
    else if (form.required?.includes(name)) throw new ReplayError(`${what} has no ${inner}`);
  }
}
