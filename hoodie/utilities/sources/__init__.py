"""Sources of the streamer."""
