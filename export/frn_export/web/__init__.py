"""Web page that classifies photos in the browser: its contents, and how it is written."""
