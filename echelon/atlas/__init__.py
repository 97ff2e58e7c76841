"""World files and pictures of worlds: palettes, relief views, PNG export."""
