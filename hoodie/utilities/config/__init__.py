"""Properties of the streamer, its sources, schema providers and transformers, as typed groups."""
