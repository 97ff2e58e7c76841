/* An agent in C without a library: turn to the nearest hostile and fire, else drive to the zone.
 *   cc -O2 -o agent agent.c -lm && echelon agent check ./agent
 *
 * It reads the few kinds of MessagePack values that Echelon sends, and answers with actions as bytes. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONTACTS = 5, TEXT = 64 };

typedef struct { const uint8_t *at; } Reader;
typedef struct { char kind; uint64_t number; const uint8_t *bytes; } Value; /* number: value, or length of the rest */

static uint64_t big_endian(Reader *in, int bytes) {
  uint64_t value = 0;
  while (bytes--) value = value << 8 | *in->at++;
  return value;
}

/* kinds: i integer, f float, s text, b bytes, a array, m map, n nil or a boolean */
static Value next(Reader *in) {
  uint8_t first = *in->at++;
  Value v = {'n', 0, NULL};
  if (first < 0x80 || first >= 0xe0) v = (Value){'i', first, NULL};
  else if (first < 0x90) v = (Value){'m', first & 15, NULL};
  else if (first < 0xa0) v = (Value){'a', first & 15, NULL};
  else if (first < 0xc0) v = (Value){'s', first & 31, NULL};
  else if (first >= 0xc4 && first <= 0xc6) v = (Value){'b', big_endian(in, 1 << (first - 0xc4)), NULL};
  else if (first == 0xca || first == 0xcb) v = (Value){'f', big_endian(in, first == 0xca ? 4 : 8), NULL};
  else if (first >= 0xcc && first <= 0xd3) v = (Value){'i', big_endian(in, 1 << (first & 3)), NULL};
  else if (first >= 0xd9 && first <= 0xdb) v = (Value){'s', big_endian(in, 1 << (first - 0xd9)), NULL};
  else if (first >= 0xdc && first <= 0xdd) v = (Value){'a', big_endian(in, 2 << (first - 0xdc)), NULL};
  else if (first >= 0xde) v = (Value){'m', big_endian(in, 2 << (first - 0xde)), NULL};
  if (v.kind == 's' || v.kind == 'b') { v.bytes = in->at; in->at += v.number; }
  return v;
}

static int is(Value v, const char *text) { return v.kind == 's' && v.number == strlen(text) && !memcmp(v.bytes, text, v.number); }

static void skip(Reader *in) {
  Value v = next(in);
  for (uint64_t n = v.kind == 'm' ? 2 * v.number : v.kind == 'a' ? v.number : 0; n--;) skip(in);
}

/* Return a reader at the value of a key of a map, or at nothing. */
static Reader find(const uint8_t *map, const char *key) {
  Reader in = {map};
  for (uint64_t n = next(&in).number; n--;) {
    if (is(next(&in), key)) return in;
    skip(&in);
  }
  return (Reader){NULL};
}

static char (*columns)[TEXT], (*actions)[TEXT];
static int width, controls;

static char (*names(const uint8_t *map, const char *key, int *count))[TEXT] {
  Reader in = find(map, key);
  *count = (int)next(&in).number;
  char (*found)[TEXT] = calloc(*count, TEXT);
  for (int n = 0; n < *count; n++) {
    Value name = next(&in);
    memcpy(found[n], name.bytes, name.number < TEXT ? name.number : TEXT - 1);
  }
  return found;
}

static int place(char (*table)[TEXT], int count, const char *name) {
  for (int n = 0; n < count; n++) if (!strcmp(table[n], name)) return n;
  fprintf(stderr, "no column or action '%s'\n", name);
  exit(1);
}

static float see(const uint8_t *row, const char *name) {
  float value;
  memcpy(&value, row + 4 * place(columns, width, name), 4); /* both sides are little-endian */
  return value;
}

static float contact(const uint8_t *row, int n, const char *what) {
  char name[TEXT];
  snprintf(name, TEXT, "contacts[%d].%s", n, what);
  return see(row, name);
}

static void set(float *action, const char *name, float value) { action[place(actions, controls, name)] = value; }

static void fly(const uint8_t *row, float *action) {
  float ahead = see(row, "ego.zone_ahead"), left = see(row, "ego.zone_left"), nearest = INFINITY;
  int target = -1;
  for (int n = 0; n < CONTACTS; n++) {
    float distance = hypotf(contact(row, n, "ahead"), contact(row, n, "left"));
    if (contact(row, n, "hostile") > 0 && distance < nearest) nearest = distance, target = n;
  }
  memset(action, 0, sizeof(float) * controls);
  if (target >= 0) {
    char name[TEXT];
    snprintf(name, TEXT, "target_%d", target);
    set(action, name, 1);
    ahead = contact(row, target, "ahead"), left = contact(row, target, "left");
    if (see(row, "ego.heat") < 0.7f) set(action, "primary", 1), set(action, "secondary", 1), set(action, "tertiary", 1);
  }
  float turn = atan2f(left, ahead);
  set(action, "yaw_rate", fmaxf(-1, fminf(1, 2 * turn)));
  if (see(row, "ego.in_zone") == 0) set(action, "forward", fmaxf(0, cosf(turn)));
}

static void send(const uint8_t *body, uint32_t size) {
  uint8_t head[4] = {size >> 24, size >> 16, size >> 8, size};
  fwrite(head, 1, 4, stdout);
  fwrite(body, 1, size, stdout);
  fflush(stdout);
}

int main(void) {
  uint8_t head[4];
  while (fread(head, 1, 4, stdin) == 4) {
    uint32_t size = (uint32_t)head[0] << 24 | head[1] << 16 | head[2] << 8 | head[3];
    uint8_t *message = malloc(size);
    if (fread(message, 1, size, stdin) != size) return 1;
    Reader kind = find(message, "type");
    Value type = next(&kind);
    if (is(type, "hello")) {
      columns = names(message, "columns", &width);
      actions = names(message, "actions", &controls);
      send((const uint8_t *)"\x81\xa4type\xa5hello", 12);
    } else if (is(type, "act")) {
      Reader number = find(message, "decision"), mechs = find(message, "mechs"), rows = find(message, "observations");
      uint32_t decision = (uint32_t)next(&number).number, count = (uint32_t)next(&mechs).number;
      const uint8_t *observations = next(&rows).bytes;
      uint32_t bytes = 4u * controls * count, at = 0;
      uint8_t *out = malloc(64 + bytes);
      out[at++] = 0x82;
      memcpy(out + at, "\xa8" "decision\xce", 10), at += 10;
      for (int shift = 24; shift >= 0; shift -= 8) out[at++] = decision >> shift;
      memcpy(out + at, "\xa7" "actions\xc6", 9), at += 9;
      for (int shift = 24; shift >= 0; shift -= 8) out[at++] = bytes >> shift;
      for (uint32_t n = 0; n < count; n++, at += 4 * controls) {
        float action[64];
        fly(observations + 4ull * width * n, action);
        memcpy(out + at, action, 4 * controls);
      }
      send(out, at);
      free(out);
    }
    free(message);
  }
  return 0;
}
