"""Pictures of a table as SVG of our own, and the page that holds them; `hoodie.stats` gives the numbers."""
