"""The replay container (.ecr): schema, codec, writer, reader, recording and the generated TypeScript protocol."""
