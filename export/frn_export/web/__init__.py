"""A page that classifies photos in the browser: what it is made of, and how it is written."""
